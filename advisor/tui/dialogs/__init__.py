"""Modal screens: confirmations, inputs, help, and the dialog that creates an environment."""
