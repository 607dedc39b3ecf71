"""Several lengths of one question: the order and budget of their runs, and the mix of results."""
