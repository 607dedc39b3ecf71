"""The part of IREE 3.13 that its probe uses; a module does not load on another device."""
