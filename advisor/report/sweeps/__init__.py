"""Outputs of a sweep over lengths: its document, text, Markdown, page and picture."""
