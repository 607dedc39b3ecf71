"""The four questions of the setup screen."""
