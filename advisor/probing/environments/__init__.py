"""Create and check environments for workers, and set the environment variables of workers."""
