"""The answers of a fleet."""
