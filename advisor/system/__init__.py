"""What the operating system says about this process, and text made safe for a terminal."""
