"""Measure callables: warm-up, visits, profiles, peak rates."""
