"""Stage: the script of an arm, composed from the probes' source, which is parsed and not run."""
