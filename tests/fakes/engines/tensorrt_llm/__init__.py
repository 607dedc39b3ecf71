"""The part of TensorRT-LLM 1.2's LLM API that its probe uses, checked against `published.toml`."""

import pathlib
from types import SimpleNamespace as Namespace

try:
    import tomllib
except ImportError:
    import tomli as tomllib

from bigrams import Bigrams

__version__ = "1.2.1"
PUBLISHED = tomllib.loads(pathlib.Path(__file__).with_name("published.toml").read_text())[
    "signatures"
]


def check(name, arguments):
    unknown = set(arguments) - set(PUBLISHED[name])
    assert not unknown, f"{name} takes no {unknown}"


class SamplingParams:
    def __init__(self, **arguments):
        check("SamplingParams", arguments)
        self.max_tokens = arguments["max_tokens"]


class LLM:
    def __init__(self, **arguments):
        check("LLM", arguments)
        assert arguments["kv_cache_config"].enable_block_reuse is False
        if "Odd" in (pathlib.Path(arguments["model"]) / "p3-advisor.json").read_text():
            raise ValueError("Unknown architecture for AutoModelForCausalLM: OddForCausalLM")
        self.model = Bigrams(arguments["model"])

    def generate(self, inputs, **arguments):
        check("LLM.generate", arguments)
        count = arguments["sampling_params"].max_tokens
        outputs = (Namespace(token_ids=self.model.follow(ids, count)) for ids in inputs)
        return [Namespace(outputs=[each]) for each in outputs]
