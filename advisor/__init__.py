"""Measure compilation workflows of a PyTorch model, score them and recommend one."""

__version__ = "0.1.0"
