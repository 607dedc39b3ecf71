"""One module for each workflow, with the functions of `probes.adapter.Workflow`."""
