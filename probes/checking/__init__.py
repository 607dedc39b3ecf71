"""Check outputs: arrays of a forward pass, tokens and log probabilities of generated text."""
