"""Answers without a finished run here: provisional, imported, and from published figures."""
