"""The script of an arm, composed from the lines that its worker reported, which it does not run."""
