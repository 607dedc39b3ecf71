"""Compose a server for a compiled model: the lines of its workflow around the source of a server.

`probes.recipes.array_server` and `probes.recipes.text_server` are the servers. Engines have servers
of their own.
"""

from __future__ import annotations

import ast
import pathlib
import re
import textwrap
from collections.abc import Sequence

from advisor.domain.model import FactoryModel
from advisor.domain.question import Question
from advisor.domain.recipe_facts import InputFacts
from advisor.errors import NoRecipeError
from advisor.recipes.bundler import LINTER_COMMENTS
from advisor.recipes.language_models import checkpoint_lines
from advisor.recipes.loading import loading_lines
from advisor.recipes.snippet import USED_PACKAGES, import_order, split_imports

#: What the servers need in addition to what was measured.
REQUIREMENTS = ("starlette>=0.40,<2", "uvicorn>=0.30,<1")
#: The comment of an integration above the lines of each call.
EACH_CALL = re.compile(r"^# Each call\b.*\n", re.MULTILINE)
#: What `generate` of transformers gets in a snippet, and in a server, where prompts are padded.
WITHOUT_PADDING = "attention_mask=torch.ones_like(prompts)"
WITH_PADDING = "attention_mask=mask, stopping_criteria=stopping_criteria"
SIZES_COMMENT = "#: What is compiled; requests share the smallest one that holds them."
COUPLED_SIZES_COMMENT = "#: What is compiled; a request has as many rows as one of them."
#: The call of a model whose requests cannot share a batch.
COUPLED_CALL = """\
# The outputs of this model for a row depend on the other rows of the batch, or do not have the
    # batch as their first dimension. Each request is therefore computed in a batch of its own.
    serve_arrays(load, build, BATCH_SIZES, joins=False)"""
SOURCES = {
    "forward": ("batching.py", "array_server.py"),
    "generate": ("batching.py", "text_server.py"),
}


def compose_server(
    question: Question,
    batch_sizes: Sequence[int],
    integration: str,
    probes: pathlib.Path,
    inputs: Sequence[InputFacts] | None = None,
    *,
    has_coupled_rows: bool = False,
) -> str:
    """Return the imports and the code of a server; raise `NoRecipeError` where there is none.

    It compiles for each batch size. Requests share a batch unless the model has coupled rows: the
    output of a row depends on the other rows of its batch. `probes` is the directory of the
    package, `inputs` are those that the worker reported.
    """
    once, each = divide(integration)
    if question.task == "generate":
        loading = checkpoint_lines(question)
        functions = _text_functions(loading, once, each)
        tokens = (question.input_tokens, question.output_tokens)
        call = f"serve_texts(load, build, BATCH_SIZES, CHECKPOINT, tokens={tokens})"
    else:
        loading = loading_lines(question, 1, inputs)
        functions = _array_functions(loading, once, each, question)
        call = COUPLED_CALL if has_coupled_rows else "serve_arrays(load, build, BATCH_SIZES)"
    sources = [_read_source(probes / "recipes" / name) for name in SOURCES[question.task]]
    used = [f"import {name}" for name in USED_PACKAGES if f"{name}." in functions]
    imports = {
        *used,
        *(line for text in (*sources, integration) for line in split_imports(text)[0]),
    }
    imports.update(_imports_at_the_top(loading, question))
    imports = {line for line in imports if not line.startswith(("from probes", "from __future__"))}
    sizes_comment = COUPLED_SIZES_COMMENT if has_coupled_rows else SIZES_COMMENT
    sections = [
        "from __future__ import annotations\n\n" + "\n".join(sorted(imports, key=import_order)),
        f"{sizes_comment}\nBATCH_SIZES = {tuple(sorted(batch_sizes))}\n\n\n{functions}",
        *("\n".join(split_imports(source)[1]) for source in sources),
        f'if __name__ == "__main__":\n    {call}\n',
    ]
    body = "\n\n\n".join(sections)
    ast.parse(body)  # what a stack or a name of a file broke is an error here
    return body


def divide(integration: str) -> tuple[str, str]:
    """Return the lines of an integration that run once, without imports, and those of each call.

    Raise `NoRecipeError` for one that has no comment between them.
    """
    lines = "\n".join(split_imports(integration)[1])
    mark = EACH_CALL.search(lines)
    if mark is None:
        raise NoRecipeError(
            "no server can be composed: the run does not have the lines of each call",
            "use --style check, or measure again; --workflow names another workflow",
        )
    return lines[: mark.start()], lines[mark.end() :]


def _imports_at_the_top(loading: Sequence[str], question: Question) -> list[str]:
    """Return the imports of the lines without that of the user's factory.

    Its name may be that of a function of the server, such as `build`.
    """
    imports = split_imports(_join(loading))[0]
    if not isinstance(question.model, FactoryModel):
        return imports
    return [line for line in imports if line.startswith("import ")]


def _array_functions(loading: Sequence[str], once: str, each: str, question: Question) -> str:
    imports, lines = split_imports(_join(loading))
    at_the_top = _imports_at_the_top(loading, question)
    local = [line for line in imports if line not in at_the_top]
    return f'''\
def load():
    """Return the model and one row of inputs."""
{_body([*local, *lines])}
    return model, inputs


def build(model, inputs):
    """Compile for the shapes of `inputs`; return a function of their present values."""
{_body([once])}

    def call():
{_body([each], 8)}
        return output

    return call'''


def _text_functions(loading: Sequence[str], once: str, each: str) -> str:
    if WITHOUT_PADDING not in each:
        raise NoRecipeError(
            "no server can be composed: the workflow's own loop takes no padded prompts",
            "--workflow names another workflow",
        )
    return f'''\
{_join(split_imports(_join(loading))[1])}


def build(model, prompts, mask):
    """Compile for the shape of `prompts`; return a function of their present values."""
{_body([once])}

    def call(stopping_criteria):
{_body([each.replace(WITHOUT_PADDING, WITH_PADDING)], 8)}

    return call'''


def _read_source(file: pathlib.Path) -> str:
    """Return the source of a module without its docstring and comments for linters."""
    text = LINTER_COMMENTS.sub(b"", file.read_bytes()).decode()
    docstring = ast.parse(text).body[0]
    return "\n".join(text.splitlines()[docstring.end_lineno :])


def _join(lines: Sequence[str]) -> str:
    return "\n".join(lines)


def _body(lines: Sequence[str], indent: int = 4) -> str:
    return textwrap.indent(_join(lines).strip("\n"), " " * indent) or " " * indent + "pass"
