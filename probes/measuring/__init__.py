"""Measure callables: warm-up, timed blocks, profiles, peak rates."""
