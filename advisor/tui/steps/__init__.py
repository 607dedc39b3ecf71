"""The questions, one a module: each shows the answers so far and changes its own."""
