"""What a worker reports: its events and its outcome, as both the worker and the advisor know them.

Names of fields and tags in a worker's files and in stored runs are those of these dataclasses. They
need nothing but the standard library, because workers run in the environments of the stacks.
"""
