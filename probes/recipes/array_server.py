"""A server for a model that maps arrays to arrays; see `probes.recipes.batching`.

`POST /predict` takes `{"inputs": [...]}`, one nested list for each input of the model with its rows
first, and returns `{"outputs": [...]}`; or the arrays of `numpy.savez` in the same order, with the
content type `application/octet-stream`, and returns such a file.
"""

from __future__ import annotations

import asyncio
import collections.abc
import dataclasses
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from probes.recipes.batching import Batcher, make_parser, refuse, serve, smallest_fit

BINARY = "application/octet-stream"


@dataclasses.dataclass(frozen=True)
class ArrayJob:
    """One array for each input of the model, `(rows, ...)`."""

    arrays: list[Any]
    outputs: asyncio.Future[list[Any]]
    loop: asyncio.AbstractEventLoop

    @property
    def rows(self) -> int:
        return len(self.arrays[0])

    def finish(self, outputs: list[Any]) -> None:
        """Hand the outputs over from the thread of the batches."""
        self.loop.call_soon_threadsafe(self._settle, outputs)

    def _settle(self, outputs: list[Any]) -> None:
        if not self.outputs.done():  # a client that has gone has cancelled it
            self.outputs.set_result(outputs)

    def fail(self, problem: BaseException) -> None:
        if not self.outputs.done():
            self.outputs.set_exception(RuntimeError(f"{type(problem).__name__}: {problem}"))


class ArrayPrograms:
    """The model, compiled for each batch size.

    With `joins=False` a job has exactly the rows of a program, and its outputs are not divided.
    """

    def __init__(
        self,
        load: Callable[[], Any],
        build: Callable[..., Any],
        sizes: Sequence[int],
        *,
        joins: bool = True,
    ) -> None:
        self._load, self._build, self._sizes, self._joins = load, build, sizes, joins
        #: By batch size, the tensors that a program reads, and the program.
        self._programs: dict[int, tuple[tuple[Any, ...], Callable[[], Any]]] = {}
        #: Shape of one row of each input.
        self.shapes: list[tuple[int, ...]] = []

    def build(self) -> None:
        """Load the model, and compile and call it for each batch size.

        Raise `ValueError` for outputs that cannot be divided among jobs: the batch is not their
        first dimension.
        """
        model, examples = self._load()
        self.shapes = [tuple(example.shape[1:]) for example in examples]
        for size in self._sizes:
            inputs = tuple(repeat_rows(example, size) for example in examples)
            os.chdir(tempfile.mkdtemp())  # a stack that writes a file has a directory of its own
            call = self._build(model, inputs)
            for output in to_arrays(call()):
                if self._joins and (not output.shape or len(output) != size):
                    message = f"an output has the shape {output.shape} with {size} rows of input"
                    raise ValueError(message)
            self._programs[size] = inputs, call

    def run(self, jobs: list[ArrayJob]) -> None:
        """Compute the jobs in one batch; rows that are left over keep their last values."""
        rows = sum(job.rows for job in jobs)
        inputs, call = self._programs[smallest_fit(self._sizes, rows)]
        for tensor, *parts in zip(inputs, *(job.arrays for job in jobs), strict=True):
            tensor[:rows].copy_(torch.from_numpy(np.concatenate(parts)))
        if inputs[0].is_cuda:
            torch.cuda.synchronize()  # a program may read its inputs on a stream of its own
        outputs, start = to_arrays(call()), 0
        if not self._joins:
            jobs[0].finish(outputs)
            return
        for job in jobs:
            job.finish([output[start : start + job.rows] for output in outputs])
            start += job.rows


def repeat_rows(example: Any, size: int) -> Any:
    """Return a new tensor with the first row of `example`, `size` times."""
    return example[:1].repeat(size, *[1] * (example.dim() - 1))


def to_arrays(output: Any) -> list[Any]:
    """Return copies of the arrays and tensors in an output, as numpy arrays.

    NumPy has no bfloat16: such outputs become float32.
    """
    if isinstance(output, collections.abc.Mapping):
        output = list(output.values())
    if isinstance(output, (list, tuple)):
        return [array for each in output for array in to_arrays(each)]
    if isinstance(output, torch.Tensor):
        output = output.detach()
        return [np.array((output.float() if output.dtype == torch.bfloat16 else output).cpu())]
    return (
        [] if output is None else [np.array(output.numpy() if hasattr(output, "numpy") else output)]
    )


def read_arrays(
    body: bytes, kind: str, shapes: Sequence[tuple[int, ...]], counts: Sequence[int]
) -> list[Any]:
    """Return the arrays of a request; raise `ValueError` for what the model does not take.

    `counts` are the numbers of rows that a request may have.
    """
    if kind.startswith(BINARY):
        with np.load(io.BytesIO(body), allow_pickle=False) as file:
            arrays = [file[name] for name in file.files]
    else:
        content = json.loads(body)
        if not isinstance(content, dict) or not isinstance(content.get("inputs"), list):
            message = 'the body is not an object with a list "inputs"'
            raise ValueError(message)
        arrays = [np.asarray(values) for values in content["inputs"]]
    found = [array.shape for array in arrays]
    if [shape[1:] for shape in found] != list(shapes) or not all(found):
        expected = ", ".join(str(("rows", *shape)) for shape in shapes)
        message = f"the model takes inputs of the shapes {expected}, not {found}"
        raise ValueError(message)
    rows = {shape[0] for shape in found}
    if len(rows) != 1 or not rows <= set(counts):
        allowed = ", ".join(map(str, counts))
        message = f"a request has as many rows in every input, one of {allowed}"
        raise ValueError(message)
    if any(array.dtype.kind not in "biuf" for array in arrays):
        message = "the inputs are not numbers"
        raise ValueError(message)
    return arrays


def write_arrays(arrays: list[Any], kind: str) -> Response:
    """Return the outputs in the form of the request."""
    if not kind.startswith(BINARY):
        return JSONResponse({"outputs": [array.tolist() for array in arrays]})
    file = io.BytesIO()
    np.savez(file, *arrays)
    return Response(file.getvalue(), media_type=BINARY)


def serve_arrays(
    load: Callable[[], Any], build: Callable[..., Any], sizes: Sequence[int], *, joins: bool = True
) -> None:
    """Serve a model that `build` compiles for each of `sizes`, which ascend.

    With `joins=False` requests never share a batch, and each has as many rows as one of `sizes`.
    """
    arguments = make_parser("Serve the model at POST /predict.").parse_args()
    programs = ArrayPrograms(load, build, sizes, joins=joins)
    batcher: Batcher[ArrayJob] = Batcher(programs.run, sizes[-1], joins=joins)
    counts = range(1, sizes[-1] + 1) if joins else sizes

    async def predict(request: Request) -> Response:
        kind = request.headers.get("content-type", "")
        try:
            arrays = read_arrays(await request.body(), kind, programs.shapes, counts)
        except (ValueError, OSError, EOFError, zipfile.BadZipFile) as problem:
            return refuse(str(problem))
        loop = asyncio.get_running_loop()
        job = ArrayJob(arrays, loop.create_future(), loop)
        batcher.add(job)
        try:
            return write_arrays(await job.outputs, kind)
        except RuntimeError as problem:
            return refuse(str(problem), 500)

    routes = [Route("/predict", predict, methods=["POST"])]
    serve(batcher, programs.build, routes, arguments.host, arguments.port)
