"""A bigram model: the next token depends on the last one only."""

import json
import pathlib
import time

import numpy as np


class Bigrams:
    def __init__(self, folder):
        folder = pathlib.Path(folder)
        self.settings = settings = json.loads((folder / "engine.json").read_text())
        if settings.get("fault") == "hangs":
            time.sleep(3600)
        self.table = np.load(folder / "table.npy")
        if settings.get("fault") == "wrong":
            self.table = np.roll(self.table, 1, axis=1)

    def follow(self, prompt, count):
        tokens = [prompt[-1]]
        for _ in range(count):
            tokens.append(int(self.table[tokens[-1]].argmax()))
        return tokens[1:]

    def likeliest(self, token, count):
        logprobs = self.table[token]
        return {int(index): float(logprobs[index]) for index in np.argsort(-logprobs)[:count]}
