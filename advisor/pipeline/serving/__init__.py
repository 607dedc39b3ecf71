"""Measure servers under load."""
