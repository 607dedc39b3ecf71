"""Confidence intervals, the race between arms, replication and change points, without I/O."""
