"""What the stored events of a run, and of runs on other devices, say. Starts no workers."""
