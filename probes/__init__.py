"""Code that runs in the environment of the stack it measures: standard library plus that stack, nothing else."""
