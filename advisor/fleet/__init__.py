"""Execute one run for each model and kind of device on a cluster, and store the results.

A run never spans machines or devices. The cluster (Ray, extra `fleet`) schedules runs and retries
those that lost their node. This package decides which runs there are and stores their events.
"""
