"""The lines, scripts and servers of a recipe, and their verification."""
