"""Widgets that Textual does not have."""
