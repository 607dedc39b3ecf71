"""Presenters: an answer as text, Markdown, HTML, figures and code."""
