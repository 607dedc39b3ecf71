"""The run that the screens show: its state, its process, its log and its documents. No widgets."""
