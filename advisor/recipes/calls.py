"""Lines that call a model with the tensors that were measured, in the order of its inputs.

Exporters take positional tensors, so a module with keyword inputs gets a module around it.
"""

from __future__ import annotations

import keyword
from collections.abc import Sequence

from advisor.errors import NoRecipeError
from probes.wire.events import InputFacts

#: What a model of transformers returns, without outputs that only the decoder reads.
TENSORS_OF_OUTPUT = (
    "tensors = tuple(",
    "    value",
    "    for name, value in output.items()",
    '    if isinstance(value, torch.Tensor) and name != "encoder_last_hidden_state"',
    ")",
    "return tensors[0] if len(tensors) == 1 else tensors",
)

#: Lines of a function that finds and replaces the tensors of nested inputs.
REPLACE_TENSORS = (
    "def replace_tensors(value, change):",
    '    """Return `value` with the result of `change` in the place of each tensor."""',
    "    if isinstance(value, torch.Tensor):",
    "        return change(value)",
    '    if hasattr(value, "items"):',
    "        return {name: replace_tensors(each, change) for name, each in value.items()}",
    "    if type(value) in (tuple, list):",
    "        return type(value)([replace_tensors(each, change) for each in value])",
    "    # A named tuple or a dataclass.",
    '    fields = getattr(value, "_fields", getattr(value, "__dataclass_fields__", ()))',
    "    if fields and not isinstance(value, type):",
    "        found = {name: replace_tensors(getattr(value, name), change) for name in fields}",
    "        return type(value)(**found)",
    "    return value",
)


def nested_call(count: int) -> list[str]:
    """Return the lines of a module that takes the `count` tensors of nested inputs in their order.

    A tensor may stand at several places. Each has a parameter: exporters take the shapes of
    `*tensors` in another structure.
    """
    names = ", ".join(f"tensor{number}" for number in range(1, count + 1))
    return [
        *REPLACE_TENSORS,
        "",
        "",
        "class Call(torch.nn.Module):",
        '    """Calls the model with tensors in the places of those of the examples."""',
        "",
        "    def __init__(self, model, examples):",
        "        super().__init__()",
        "        self.model, self.examples, found = model, examples, []",
        "        replace_tensors(examples, found.append)",
        "        self.tensors = list({id(each): each for each in found}.values())",
        "        self.places = [[each is x for x in self.tensors].index(True) for each in found]",
        "",
        f"    def forward(self, {names}):",
        f"        following = iter([({names},)[place] for place in self.places])",
        "        arguments, keywords = replace_tensors(self.examples, lambda _: next(following))",
        "        return self.model(*arguments, **keywords)",
        "",
        "",
    ]


def call_class(
    name: str, inputs: Sequence[InputFacts], last: Sequence[str], constants: str = ""
) -> list[str]:
    """Return the lines of a module that calls another one with keyword inputs.

    `constants` are further keyword inputs.
    """
    names = [each.name for each in inputs]
    # A run from another machine could have anything else here.
    if not all(each.isidentifier() and not keyword.iskeyword(each) for each in names):
        raise NoRecipeError(
            "an input of the model has a name that is not a Python identifier",
            "give the model as file.py:factory, with a module around it",
        )
    keywords = ", ".join(f"{each}={each}" for each in names)
    return [
        f"class {name}(torch.nn.Module):",
        "    def __init__(self, model):",
        "        super().__init__()",
        "        self.model = model",
        "",
        f"    def forward(self, {', '.join(names)}):",
        f"        output = self.model({keywords}{constants})",
        *(f"        {line}" for line in last),
        "",
        "",
    ]


def random_values(each: InputFacts, batch_size: int) -> str:
    shape = f"({', '.join(map(str, (batch_size, *each.shape)))})"
    if each.low is not None and each.high is not None:
        return f"torch.randint({each.low}, {each.high}, {shape})"
    if not each.dtype.isidentifier():
        raise NoRecipeError(f"{each.dtype!r} is not a dtype", "measure again")
    return f"torch.randn({shape}, dtype=torch.{each.dtype})"
