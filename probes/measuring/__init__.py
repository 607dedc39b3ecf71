"""Measure callables: warm-up, timed blocks, profiles, new batch sizes."""
