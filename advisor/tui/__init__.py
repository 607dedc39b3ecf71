"""The terminal program: the only importer of Textual. Draws values that others own."""
