"""Code that several workflows of one stack share."""
