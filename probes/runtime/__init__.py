"""The life of a worker process: start, commands, builds, checks, memory and failures."""
