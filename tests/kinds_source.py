"""The code of models that do unusual things in a call; the factory of `name` is `of_name`."""

MODELS = """
import collections
import dataclasses
import itertools
import random

import numpy as np
import torch

HISTORY, STATE, COUNTER = [], {}, itertools.count()
GENERATOR = torch.Generator().manual_seed(3)


class Holder:
    value = None


SHARED = Holder()


class Net(torch.nn.Module):
    calls = 0

    def __init__(self, call, **attributes):
        super().__init__()
        self.a, self.b = torch.nn.Linear(16, 16), torch.nn.Linear(16, 8)
        self.register_buffer("kept", torch.zeros(2, 16))
        self.call = call
        vars(self).update(attributes)

    def forward(self, x):
        return self.call(self, x)


def of(call, **attributes):
    return lambda: (Net(call, **attributes).eval(), torch.randn(2, 16))


def returns_changed_buffer(net, x):
    return net.kept.mul_(0.9).add_(net.a(x))


def returns_view_of_buffer(net, x):
    net.kept.mul_(0.9).add_(net.a(x))
    return net.kept[:, 2:7].t()


def overwrites_buffer(net, x):
    return net.kept.copy_(net.a(x))[:, ::2]


def keeps_hidden(net, x):
    net.hidden = net.a(x) + (0 if net.hidden is None else net.hidden)
    return net.hidden


def counts(net, x):
    net.count += 1
    return net.a(x) * net.count


def counts_in_its_class(net, x):
    Net.calls += 1
    return net.a(x) * Net.calls


def remembers(net, x):
    net.seen.append(net.a(x))
    return sum(net.seen)


def replaces_in_a_list(net, x):
    y = net.a(x) + net.seen[0]
    net.seen[0] = y
    return y


def remembers_globally(net, x):
    HISTORY.append(net.a(x))
    return sum(HISTORY)


def keeps_in_a_global(net, x):
    STATE["h"] = net.a(x) + STATE.get("h", 0)
    return STATE["h"]


def keeps_in_an_object(net, x):
    SHARED.value = net.a(x) + (0 if SHARED.value is None else SHARED.value)
    return SHARED.value


def counts_by_an_iterator(net, x):
    return net.a(x) + next(COUNTER)


def changes_a_parameter(net, x):
    net.a.weight.data.mul_(0.99)
    return net.a(x)


def changes_a_parameter_slightly(net, x):
    with torch.no_grad():
        net.b.bias.add_(1e-5 * x.mean())
    return net.b(x)


def keeps_the_first_call(net, x):
    net.first = x.mean() if net.first is None else net.first
    return net.a(x) + net.first


def logs(net, x):
    net.count += 1
    HISTORY.append(net.count)
    net.last = net.a(x)
    return net.last


def caches(net, x):
    if net.first is None:
        net.first = torch.arange(16.0)
    return net.a(x) + net.first.to(x.dtype)


def in_closure():
    memory = [0.0]

    def call(net, x):
        memory[0] = memory[0] + net.a(x)
        return memory[0]

    return Net(call).eval(), torch.randn(2, 16)


def adds_noise(draw):
    return of(lambda net, x: (net.a(x) + 0.1 * draw(net, x), net.a(x), net.b(x).argmax(-1)))


def drops(net, x):
    return net.a(x), torch.nn.functional.dropout(net.b(x), 0.2)


def samples_once(net, x):
    return net.a(x), torch.multinomial((4 * net.b(x)).softmax(-1), 1)


def counts_and_draws(net, x):
    HISTORY.append(len(HISTORY))
    return net.a(x), net.b(x) + float(np.random.default_rng().random())


def takes_some(net, x):
    return net.a(x), x[torch.rand_like(x) > 0.5]


def seeds_itself(net, x):
    torch.manual_seed(7)
    return net.a(x + 0.5 * torch.randn_like(x))


def makes_a_generator(net, x):
    draws = torch.Generator().manual_seed(1)
    return net.a(x + torch.empty_like(x).normal_(generator=draws))


def doubles_in_double(net, x):
    y = net.a(x)
    return 2 * y if y.dtype == torch.float64 else y


def scales_in_single(net, x):
    return net.a(x) * (1.05 if x.element_size() == 4 else 1.0)


def rounds_inside(net, x):
    y = net.a(x)
    return net.b(y.to(torch.bfloat16).to(y.dtype))


def autocasts(net, x):
    with torch.autocast(x.device.type, torch.bfloat16):
        return net.b(torch.nn.functional.gelu(net.a(x))).float()


class Boxes:
    def __init__(self, values):
        self.values = values


class Opaque:
    __slots__ = ("text",)


@dataclasses.dataclass
class Output:
    logits: torch.Tensor
    boxes: object


def returns_boxes(net, x):
    return Output(net.a(x), Boxes(net.b(x)))


def returns_opaque(net, x):
    return Output(net.a(x), Opaque())


def returns_number(net, x):
    return net.a(x), net.b(x).sum().item()


def returns_array(net, x):
    return net.a(x), net.b(x).numpy()


def sorts_equal_keys(net, x):
    keys = (10 * x).round().clamp(-2, 2)
    return keys.sort(-1)


def takes_the_largest_of_constants(net, x):
    y = net.a(x)
    y = torch.cat([torch.zeros_like(y), y])
    return y.argmax(-1), y


def is_all_ties(net, x):
    return net.a(x), torch.zeros_like(x).argmax(-1)


def gathers_by_ties(net, x):
    _, places = (4 * x).round().topk(5, -1)
    return net.a(x).gather(-1, places), net.b(x)


def sorts_stably(net, x):
    return (x > 0).to(x.dtype).sort(dim=-1, stable=True)


def finds_nothing(net, x):
    y = net.a(x)
    return y, y[y > 1e9]


def is_empty(net, x):
    return x[:, :0], x[x > 1e9].long()


def is_complex(net, x):
    return torch.complex(net.a(x), x)


FACTORIES = {
    "samples": adds_noise(lambda net, x: torch.randn_like(x)),
    "samples_by_numpy": adds_noise(lambda net, x: torch.from_numpy(np.random.randn(2, 16)).to(x)),
    "samples_by_python": adds_noise(lambda net, x: random.gauss(0, 1)),
    "samples_by_a_new_generator": adds_noise(
        lambda net, x: torch.from_numpy(np.random.default_rng().standard_normal((2, 16))).to(x)
    ),
    "samples_by_a_generator": adds_noise(
        lambda net, x: torch.empty_like(x).normal_(generator=GENERATOR)
    ),
    "samples_without_a_seed": adds_noise(lambda net, x: random.Random().gauss(0, 1)),
    "in_closure": in_closure,
}


def __getattr__(name):
    if name.removeprefix("of_") in FACTORIES:
        return FACTORIES[name.removeprefix("of_")]
    call = globals()[name.removeprefix("of_")]
    return of(call, hidden=None, count=0, seen=[0.0], first=None)
"""
