"""As much of IREE 3.13 as its probe asks: what was compiled for one device does not load on another, as there."""
