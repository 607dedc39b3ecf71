"""The screens.

Each draws values and says what the user wants; the app owns runs and their processes.
"""
