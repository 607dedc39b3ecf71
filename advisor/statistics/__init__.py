"""Intervals, races and other statistics. Pure; no input, output or clock."""
