"""Code that runs in the environment of the measured stack; it imports only that stack.

`events`, `accuracy`, `facts`, `outcome` and `shape` are what a worker reports, as both the worker
and the advisor know it. Names of fields and tags in a worker's files and in stored runs are those
of these dataclasses. They need nothing but the standard library.
"""
