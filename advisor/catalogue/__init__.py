"""Stage: read and check `rubric/*.toml` -> `Catalogue`."""
