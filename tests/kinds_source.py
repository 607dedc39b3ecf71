"""The code of models that do unusual things in a call; the factory of `name` is `of_name`."""

from kinds_of_outputs import OUTPUTS

MODELS = (
    """
import collections
import contextvars
import dataclasses
import functools
import itertools
import os
import random
import threading

import numpy as np
import torch

HISTORY, STATE, COUNTER = [], {}, itertools.count()
GENERATOR = torch.Generator().manual_seed(3)
VARIABLE, LOCAL = contextvars.ContextVar("VARIABLE", default=0), threading.local()
Pair = collections.namedtuple("Pair", "first second")



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

    def forward(self, *inputs, **named):
        return self.call(self, *inputs, **named)


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


def returns_its_count(net, x):
    Net.calls += 1
    return net.a(x), Net.calls


def remembers(net, x):
    net.seen.append(net.a(x))
    return sum(net.seen)


def keeps_in_a_global(net, x):
    STATE["h"] = net.a(x) + STATE.get("h", 0)
    return STATE["h"]


def keeps_in_an_object(net, x):
    SHARED.value = net.a(x) + (0 if SHARED.value is None else SHARED.value)
    return SHARED.value


def counts_by_an_iterator(net, x):
    return net.a(x) + next(COUNTER)


def changes_a_parameter_slightly(net, x):
    with torch.no_grad():
        net.b.bias.add_(1e-5 * x.mean())
    return net.b(x)


def prints(net, x):
    print(x.mean().item())
    return net.a(x)


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


@dataclasses.dataclass(slots=True)
class Slots:
    first: object
    second: object


def strides_attribute(net, x):
    net.h += net.a(x)
    return Pair(net.h[:, ::3], net.b(x))


# States.
def counts_in_a_function(net, x):
    counts_in_a_function.calls += 1
    return net.a(x) * counts_in_a_function.calls


counts_in_a_function.calls = 0


def keeps_in_a_default(net, x, memory=[]):
    memory.append(net.a(x))
    return sum(memory)


def keeps_in_slots(net, x):
    net.slots.first[0] += 1
    return net.a(x) * net.slots.first[0]


class Private:
    __slots__ = ("__calls",)

    def count(self):
        self.__calls = getattr(self, "_Private__calls", 0) + 1
        return self.__calls


def counts_in_a_private_slot(net, x):
    return net.a(x) * net.private.count()


def replaces_a_pair(net, x):
    net.pair = Pair(net.pair.first + net.a(x), net.pair.second)
    return net.pair.first


def rolls(net, x):
    net.ring.append(net.a(x).mean(0))
    return x + torch.stack(list(net.ring)).sum(0)


def counts_by_a_generator(net, x):
    return net.a(x) + next(net.generator)


def cycles_in_a_list(net, x):
    return net.a(x) * next(net.iterator)


def counts_in_a_context(net, x):
    VARIABLE.set(VARIABLE.get() + 1)
    return net.a(x) * VARIABLE.get()


def counts_in_a_thread(net, x):
    LOCAL.calls = getattr(LOCAL, "calls", 0) + 1
    return net.a(x) * LOCAL.calls


def counts_in_a_partial(net, x):
    return net.partial(net.a(x))


def counts_in_bytes(net, x):
    net.bytes[0] += 1
    return net.a(x) * net.bytes[0]


def counts_in_the_environment(net, x):
    os.environ["KINDS"] = str(int(os.environ.get("KINDS", 0)) + 1)
    return net.a(x) * int(os.environ["KINDS"])


@functools.lru_cache
def first_mean(net):
    return net.x.mean()


def remembers_a_result(net, x):
    net.x = x
    return net.a(x) + first_mean(net)


def changes_late(net, x):
    net.count += 1
    return net.a(x) + (net.count % 10 == 0)


def in_a_hook():
    net, calls = Net(lambda net, x: net.a(x)), [0]

    def hook(layer, arguments, output):
        calls[0] += 1
        return output + calls[0]

    net.a.register_forward_hook(hook)
    return net.eval(), torch.randn(2, 16)


def keeps_in_an_input():
    def call(net, x, held):
        held.value = (held.value or 0) + 1
        return net.a(x) * held.value

    return Net(call).eval(), (torch.randn(2, 16), Holder())


def keeps_by_position():
    def call(net, x, position):
        net.kept[:, position[0]] = net.a(x)[:, 0]
        return net.kept[:, :8].cumsum(1)

    return Net(call).eval(), {"x": torch.randn(2, 16), "position": torch.tensor([5, 5])}


def switch_mode(net, x):
    net.training = not net.training
    return net.a(x) * (1 + net.training)


def keeps_pages():
    def call(net, x, slot, position):
        assert not net.is_running
        net.is_running = True
        assert slot[0] == 3
        net.is_running = False
        net.pages[slot[0], position] = net.a(x)[0, 0]
        return net.a(x)[:, :8] + net.pages[slot[0], :8].cumsum(0)

    inputs = torch.randn(2, 16), torch.tensor([3, 3]), torch.tensor(5)
    return Net(call, pages=torch.zeros(8, 16), is_running=False).eval(), inputs


# Pure.
def refuses_others():
    def call(net, x, tokens):
        assert not net.is_running
        net.is_running, net.count = True, net.count + 1
        assert (tokens == 3).all()
        net.is_running = False
        return net.a(x)

    inputs = torch.randn(2, 16), torch.tensor([3, 3])
    return Net(call, is_running=False, count=0).eval(), inputs


def writes_into_a_frame(net, x):
    net.kept[:, 1:-1] = net.a(x)[:, 1:-1]
    return net.b(net.kept)


def reads_what_a_hook_writes():
    net = Net(lambda net, x: (net.a(x), net.features["a"].mean(-1)), features={})

    def write(value, where=net.features):
        where["a"] = value

    net.a.register_forward_hook(lambda layer, arguments, output: write(output))
    return net.eval(), torch.randn(2, 16)


def logs_in_a_default_dict(net, x):
    net.default["norm"] += net.a(x).norm().item()
    return net.a(x)


def writes_to_scratch(net, x):
    net.h = net.h.to(x.dtype)
    return torch.mul(net.a(x), 2, out=net.h)


@functools.lru_cache
def table(count):
    return torch.arange(float(count))


def remembers_a_table(net, x):
    return net.a(x) + table(16).to(x.dtype)


def fills_its_input(net, x):
    x[:, 0] = x[:, 1]
    return net.a(x)


def reshapes_its_input(net, x):
    return net.a(x.resize_(2, 16).unsqueeze_(0)[0])


def returns_its_input(net, x):
    return x, x[:, ::2], x.t(), x.expand(3, 2, 16)


def count_up():
    for number in itertools.count():
        yield number


def count_in(counter, x):
    counter["calls"] = counter.get("calls", 0) + 1
    return x * counter["calls"]


"""
    + OUTPUTS
    + """
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
    "in_a_hook": in_a_hook,
    "keeps_in_an_input": keeps_in_an_input,
    "keeps_by_position": keeps_by_position,
    "keeps_pages": keeps_pages,
    "switches_its_mode": lambda: (Net(switch_mode).eval(), {"x": torch.randn(2, 16)}),
    "refuses_others": refuses_others,
    "reads_what_a_hook_writes": reads_what_a_hook_writes,
}


def __getattr__(name):
    name = name.removeprefix("of_")
    return FACTORIES.get(name) or (
        lambda: of(
            globals()[name],
            hidden=None,
            seen=[0.0],
            first=None,
            h=torch.zeros(2, 16),
            count=0,
            default=collections.defaultdict(int),
            slots=Slots([0], None),
            private=Private(),
            pair=Pair(torch.zeros(2, 16), None),
            ring=collections.deque([torch.zeros(16)] * 3, maxlen=3),
            generator=count_up(),
            iterator=iter([1.0, 2.0] * 99),
            partial=functools.partial(count_in, {}),
            bytes=bytearray(4),
        )()
    )
"""
)
