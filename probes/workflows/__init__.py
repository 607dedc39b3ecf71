"""One module a workflow; see `probes.adapter` for what it must have."""
