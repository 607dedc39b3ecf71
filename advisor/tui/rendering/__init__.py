"""Turn values into terminal text: formatting, escaping, colours, and explanations of a decision."""
