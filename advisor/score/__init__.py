"""Stage: measurements and declared facts -> grades, letters and scores. Pure."""
