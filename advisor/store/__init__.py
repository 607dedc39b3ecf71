"""Runs on disk. A run is a directory.

<home>/runs/<id>/run.json       the header
                 events.jsonl   the events, appended
                 entry.json     the run in a few fields, which can be deleted at any time
                 note           the user's note
                 lock           held by the process that works on the run
                 control        commands of other processes to that one
                 state          `paused` while the run is paused
                 runner.log     standard error of that process if the screens started it
                 arms/          control directories of the workers, with their logs
                 scratch/       weights, references, caches; removed when the run is finished
"""
