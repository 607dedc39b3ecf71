"""The machine, environments and workers. The only importer of `probes.protocol`."""
