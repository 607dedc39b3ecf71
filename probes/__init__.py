"""Code that runs in the environment of the measured stack; it imports only that stack."""
