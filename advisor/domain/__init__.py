"""Immutable values that the stages pass to each other; no stage is imported here."""
