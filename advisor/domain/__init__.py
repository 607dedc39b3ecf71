"""The values that the stages hand to each other: frozen, free of behaviour that has effects, and knowing nothing of the stages."""
