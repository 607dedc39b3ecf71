"""The part of SGLang 0.5's offline interface that its probe uses."""

import types

from bigrams import Bigrams

__version__ = "0.5.23"
#: Used fields of `sglang.srt.arg_groups.fields` in 0.5.17 and 0.5.23.
FIELDS = {"model_path", "trust_remote_code", "skip_tokenizer_init", "dtype", "context_length"}
FIELDS |= {"max_running_requests", "cuda_graph_max_bs_decode", "mem_fraction_static"}
FIELDS |= {"disable_radix_cache", "random_seed", "log_level"}
#: Used parameters of `Engine.generate`.
PARAMETERS = {"input_ids", "sampling_params", "return_logprob"}
PARAMETERS |= {"logprob_start_len", "top_logprobs_num"}


class Engine:
    def __init__(self, **arguments):
        assert set(arguments) <= FIELDS, set(arguments) - FIELDS
        assert arguments["disable_radix_cache"] is True
        share = arguments["mem_fraction_static"]
        assert 0 < share < 0.9
        self.context = arguments["context_length"]
        self.model = Bigrams(arguments["model_path"])
        self.server_args = types.SimpleNamespace(
            disable_cuda_graph=False, mem_fraction_static=share
        )

    def generate(self, **arguments):
        assert set(arguments) <= PARAMETERS, set(arguments) - PARAMETERS
        return [
            self.answer(ids, arguments["sampling_params"], arguments.get("top_logprobs_num"))
            for ids in arguments["input_ids"]
        ]

    def answer(self, ids, sampling, count):
        # The limits of the scheduler of 0.5.17: a prompt ends at least six positions before the end
        # of the context, generated text two.
        assert len(ids) <= self.context - 6, "the prompt is refused"
        new_tokens = min(sampling["max_new_tokens"], self.context - 2 - len(ids))
        tops = None
        if count:
            found = (self.model.likeliest(each, count) for each in ids[:-1])
            tops = [None, *([(value, key, None) for key, value in each.items()] for each in found)]
        return {
            "output_ids": self.model.follow(ids, new_tokens),
            "meta_info": {"input_top_logprobs": tops},
        }
