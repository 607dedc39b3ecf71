"""The scripts that users take away, composed from the source of the probes."""
