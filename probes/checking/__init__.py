"""Whether an output is correct: arrays for a forward pass, tokens and probabilities for text."""
