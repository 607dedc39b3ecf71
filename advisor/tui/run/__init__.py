"""The run that the screens show: its state, its process and its log. No widgets."""
