"""Parts of the answer that text, Markdown, HTML and the screens share."""
