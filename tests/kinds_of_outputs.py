"""Models with unusual outputs; a part of `kinds_source.py`."""

OUTPUTS = """
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


def returns_values(net, x):
    return {"rows": len(x), "logits": net.a(x), "kind": "cls", "more": (True, None, x.shape, 0.5)}


def returns_chain(net, x):
    chain = net.b(x)
    for _ in range(20):
        chain = (chain,)
    return net.a(x), chain


def returns_array(net, x):
    return net.a(x), net.b(x).numpy()


def sorts_equal_keys(net, x):
    keys = (10 * x).round().clamp(-2, 2)
    return keys.sort(-1)


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


class Callable:
    def __init__(self, value):
        self.value = value

    def __call__(self):
        return self.value


def rounded(x):
    return (2 * x).round().clamp(-1, 1)


# One random output.
def draws_for_a_row(net, x):
    y = net.a(x)
    y[1:] += torch.randn_like(y[1:])
    return y


def joins_mean_and_sample(net, x):
    return torch.cat([net.a(x), net.a(x) + torch.randn_like(x)], -1)


def returns_distribution(net, x):
    found = torch.distributions.Normal(net.a(x), 1.0)
    return found.loc, found.rsample(), found.entropy()


def draws_from_the_system(net, x):
    return net.a(x), net.b(x) * random.SystemRandom().random()


def draws_in_some_calls(net, x):
    return net.a(x), net.b(x) + (torch.rand(()) if x.mean() > 0 else 0)


def hashes(net, x):
    return net.a(x), torch.rand_like(x) > 0.5


# Path by dtype.
def reads_bits(net, x):
    return net.a(x).view(torch.int32) >> 23, net.b(x)


def draws_by_dtype(net, x):
    draws = torch.Generator().manual_seed(4)
    return net.a(x) + torch.randn(x.shape, dtype=x.dtype, generator=draws)


def takes_no_double(net, x):
    if x.dtype == torch.float64:
        raise TypeError
    return net.a(x)


def scales_by_the_default(net, x):
    return net.a(x) * (1.09 if x.dtype != torch.float64 else 1.0)


# Ties.
def takes_the_median(net, x):
    return (*rounded(x).median(-1), net.a(x))


def takes_the_fourth(net, x):
    return (*rounded(x).kthvalue(4, -1), net.a(x))


def takes_ten(net, x):
    return x.relu().topk(10, -1)


def takes_the_largest_of_all(net, x):
    return rounded(x).max(-1).indices, (x > 0).int().argmax().view(1)


def sorts_flags(net, x):
    return (x > 0).int().argsort(0), net.a(x)


# Empty outputs.
def finds_no_boxes(net, x):
    y = net.a(x)
    keep = y.max(-1).values > 1e6
    return {"boxes": y[keep], "labels": keep.nonzero(), "y": y}


def lists_nothing(net, x):
    return [x.new_zeros(2, 0), x[:, :0], net.a(x)]


# Objects.
def returns_slots(net, x):
    return Slots(net.a(x), {"b": [net.b(x)]})


def returns_deque(net, x):
    return collections.deque([net.a(x), net.b(x)])


def returns_callable(net, x):
    return net.a(x), Callable(net.b(x))


def returns_spectrum(net, x):
    return net.a(x), np.fft.fft(x.numpy())


def returns_sparse(net, x):
    return net.a(x).relu().to_sparse(), net.b(x)


def returns_nested(net, x):
    return torch.nested.nested_tensor([net.a(x)[0], net.b(x)[1]], layout=torch.jagged)


# Numbers.
def returns_conjugate(net, x):
    z = torch.complex(net.a(x), x)
    return z.conj().imag, z.conj(), z.abs()


def returns_float8(net, x):
    return net.a(x).to(torch.float8_e4m3fn), net.b(x)


def masks_by_infinity(net, x):
    return net.a(x).masked_fill(torch.ones(2, 16).triu(9).bool(), torch.inf)


def counts_brightness(net, x):
    return (60000 * net.a(x).sigmoid()).to(torch.int32)
"""
