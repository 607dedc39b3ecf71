"""Measurement stage: arms -> outcomes and visits. The only importer of `probes.protocol`."""
