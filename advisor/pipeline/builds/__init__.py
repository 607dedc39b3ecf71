"""Build arms, within limits of time and memory."""
