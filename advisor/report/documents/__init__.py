"""The JSON document of a run: made from a decision, read again, or from published figures."""
