"""Time calls of the built arms by turns, and measure the leaders further."""
