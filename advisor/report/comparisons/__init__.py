"""Compare two runs."""
