"""The models under test, one module for each kind."""
