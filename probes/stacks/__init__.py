"""Code of a stack that several workflows share, or that is a job of its own."""
