"""What both servers of recipes share: requests wait, and one thread computes them in batches.

`advisor.recipes.server` copies the source of this module into each server. Parameters of every
server are the functions of the recipe: `load` opens the model, `build` compiles it for one batch
size.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import concurrent.futures
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route


class Job(Protocol):
    """A request that waits for its turn."""

    @property
    def rows(self) -> int:
        """Return the number of rows that it takes of a batch."""

    def fail(self, problem: BaseException) -> None:
        """End the request, because its batch raised `problem`."""


AnyJob = TypeVar("AnyJob", bound=Job)


class Batcher(Generic[AnyJob]):
    """Computes waiting jobs in the order of their arrival, as many as fit into one batch.

    With `joins=False` each job is a batch of its own. Nothing waits for a batch to fill: a batch
    starts when the one before it has ended. Programs are built and called on one thread, because
    CUDA graphs belong to the thread that captures them.
    """

    def __init__(
        self, run: Callable[[list[AnyJob]], None], max_rows: int, *, joins: bool = True
    ) -> None:
        self.max_rows = max_rows
        self._joins = joins
        self.thread = concurrent.futures.ThreadPoolExecutor(1)
        self._run = run
        self._waiting: collections.deque[AnyJob] = collections.deque()
        self._arrival = asyncio.Event()

    def add(self, job: AnyJob) -> None:
        """Let a job of at most `max_rows` rows wait for its turn."""
        self._waiting.append(job)
        self._arrival.set()

    async def work(self) -> None:
        """Compute jobs until the task is cancelled."""
        while True:
            while not self._waiting:
                self._arrival.clear()
                await self._arrival.wait()
            jobs = self.take()
            batch = asyncio.wrap_future(self.thread.submit(self._run, jobs))
            await asyncio.wait([batch])
            problem = batch.exception()
            for job in jobs if problem else ():
                job.fail(problem or RuntimeError())

    def take(self) -> list[AnyJob]:
        """Remove the jobs of the next batch from those that wait."""
        jobs, rows = [], 0
        while self._waiting and rows + self._waiting[0].rows <= self.max_rows:
            jobs.append(self._waiting.popleft())
            rows += jobs[-1].rows
            if not self._joins:
                break
        return jobs


def smallest_fit(sizes: Sequence[int], rows: int) -> int:
    """Return the smallest built batch size that holds the rows."""
    return min(size for size in sizes if size >= rows)


def make_parser(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0 serves other machines")
    parser.add_argument("--port", type=int, default=8000)
    return parser


def refuse(reason: str, status: int = 400) -> JSONResponse:
    """Return the answer to a request that is not served, in the form of OpenAI's API."""
    kind = "invalid_request_error" if status < 500 else "server_error"  # noqa: PLR2004 - HTTP
    return JSONResponse({"error": {"message": reason, "type": kind}}, status)


def serve(
    batcher: Batcher[Any], build: Callable[[], None], routes: Sequence[Route], host: str, port: int
) -> None:
    """Build on the batcher's thread, then answer requests until the process is stopped.

    The port opens when everything is built, so a server that answers `/health` is ready.
    """

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await asyncio.wrap_future(batcher.thread.submit(build))
        task = asyncio.create_task(batcher.work())
        yield
        task.cancel()

    async def health(_: Any) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    application = Starlette(routes=[Route("/health", health), *routes], lifespan=lifespan)
    uvicorn.run(application, host=host, port=port, access_log=False, log_level="warning")
