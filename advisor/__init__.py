"""Advise how to compile a PyTorch model for the GPU at hand: short probes, the paper's rubric, a recommendation with its evidence."""

__version__ = "0.1.0"
