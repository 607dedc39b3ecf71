"""The version of the program, and how its extras are installed."""

__version__ = "0.1.0"


def how_to_install(extra: str, pip: str = "pip") -> str:
    """Return how to install an extra: from a checkout, because no index has a release."""
    return f"in a checkout of p3-advisor: {pip} install '.[{extra}]'"
