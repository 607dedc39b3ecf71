"""Check this machine for problems that prevent or disturb measurements."""
