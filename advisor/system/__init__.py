"""Operating-system helpers: cgroup limits, locks, files, and text for terminals."""
