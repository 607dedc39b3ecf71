"""The full screens.

Screens draw values and forward requests of the user; the app owns runs and their processes.
"""
