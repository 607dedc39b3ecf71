"""Presenters: a decision -> JSON, text. Pure functions that return strings."""
