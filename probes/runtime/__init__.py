"""The life of a worker process: start, messages, watchdog, memory and caches."""
