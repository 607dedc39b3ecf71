"""Immutable values that all packages share, errors and text; it imports no other of them."""
