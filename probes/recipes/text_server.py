"""A server for a language model, with OpenAI's `/v1/completions`; see `probes.recipes.batching`.

It decodes greedily. Prompts are padded on the left to the measured number of tokens, so each batch
has the shapes that were compiled; a batch ends when its last text ends. Without a tokenizer prompts
are lists of token numbers, and texts are token numbers with spaces between them.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import torch
import transformers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from probes.recipes.batching import Batcher, make_parser, refuse, serve, smallest_fit


@dataclasses.dataclass
class TextJob:
    """A prompt, and the queue of its new tokens, which ends with None or an error."""

    prompt: list[int]
    max_tokens: int
    #: Tokens that end the text.
    ends: frozenset[int]
    tokens: asyncio.Queue[int | RuntimeError | None]
    loop: asyncio.AbstractEventLoop
    rows: int = 1
    #: Number of tokens so far.
    count: int = 0
    is_done: bool = False

    def put(self, token: int) -> None:
        """Hand a token over from the thread of the batches."""
        if self.is_done:
            return
        self.count += 1
        self.is_done = self.count == self.max_tokens or token in self.ends
        self.loop.call_soon_threadsafe(self.tokens.put_nowait, token)
        if self.is_done:
            self.loop.call_soon_threadsafe(self.tokens.put_nowait, None)

    def fail(self, problem: BaseException) -> None:
        self.is_done = True
        self.tokens.put_nowait(RuntimeError(f"{type(problem).__name__}: {problem}"))


class HandOver(transformers.StoppingCriteria):
    """Hands the tokens of each step to the jobs of a batch, and ends it with its last text."""

    def __init__(self, jobs: Sequence[TextJob]) -> None:
        self._jobs = jobs

    def __call__(self, input_ids: torch.Tensor, _scores: Any, **_: Any) -> torch.Tensor:
        for job, token in zip(self._jobs, input_ids[:, -1].tolist(), strict=False):
            job.put(token)
        is_done = all(job.is_done for job in self._jobs)
        return torch.full((len(input_ids),), is_done, dtype=torch.bool, device=input_ids.device)


class TextPrograms:
    """The model, compiled for each batch size."""

    def __init__(
        self, model: Any, build: Callable[..., Any], sizes: Sequence[int], prompt_tokens: int
    ) -> None:
        self._model, self._build, self._sizes = model, build, sizes
        self.prompt_tokens = prompt_tokens
        #: By batch size, the prompts and the mask that a program reads, and the program.
        self._programs: dict[int, tuple[torch.Tensor, torch.Tensor, Callable[..., Any]]] = {}
        configured = model.generation_config.eos_token_id
        #: Tokens that end a text, unless the request ignores them.
        self.ends = frozenset(
            []
            if configured is None
            else [configured]
            if isinstance(configured, int)
            else configured
        )
        self.vocabulary = int(model.config.get_text_config().vocab_size)
        # Each job looks for the end of its own text.
        model.generation_config = transformers.GenerationConfig(
            do_sample=False, pad_token_id=0, eos_token_id=None
        )

    def build(self) -> None:
        """Compile and call the model for each batch size, with and without padding."""
        tensors = [*self._model.parameters(), *self._model.buffers()]
        for size in self._sizes:
            # transformers keeps one compiled call for each model; the copies share the weights.
            model = copy.deepcopy(self._model, {id(tensor): tensor for tensor in tensors})
            prompts = torch.ones((size, self.prompt_tokens), dtype=torch.int64)
            prompts = prompts.to(self._model.device)
            mask = torch.ones_like(prompts)
            self._programs[size] = prompts, mask, self._build(model, prompts, mask)
            for padding in (0, 1):
                mask[:, :padding] = 0
                self._programs[size][2](transformers.StoppingCriteriaList())

    def run(self, jobs: list[TextJob]) -> None:
        """Generate the texts of the jobs in one batch."""
        prompts, mask, call = self._programs[smallest_fit(self._sizes, len(jobs))]
        rows = [jobs[min(row, len(jobs) - 1)].prompt for row in range(len(prompts))]
        padding = [self.prompt_tokens - len(row) for row in rows]
        padded = [[0] * count + row for count, row in zip(padding, rows, strict=True)]
        seen = [[0] * count + [1] * len(row) for count, row in zip(padding, rows, strict=True)]
        prompts.copy_(torch.tensor(padded))
        mask.copy_(torch.tensor(seen))
        call(transformers.StoppingCriteriaList([HandOver(jobs)]))
        if not all(job.is_done for job in jobs):
            message = "the batch ended before its texts"
            raise RuntimeError(message)


def open_tokenizer(checkpoint: str) -> Any:
    """Return the tokenizer of a checkpoint, or None where it has none."""
    if not checkpoint:
        return None
    try:
        return transformers.AutoTokenizer.from_pretrained(checkpoint)
    except (OSError, ValueError, KeyError):
        return None


class TextApi:
    """Translates between OpenAI's requests and jobs."""

    def __init__(self, programs: TextPrograms, tokenizer: Any, max_tokens: int) -> None:
        self._programs, self._tokenizer, self._max_tokens = programs, tokenizer, max_tokens

    def read(self, content: Any) -> TextJob:
        """Return the job of a request; raise `ValueError` for what the server does not do."""
        if not isinstance(content, dict):
            message = "the body is not an object"
            raise ValueError(message)  # noqa: TRY004 - a fault of the request like every other
        if content.get("temperature") or content.get("n", 1) != 1:
            message = "the server decodes greedily: temperature is 0 and n is 1"
            raise ValueError(message)
        most = content.get("max_tokens", min(16, self._max_tokens))
        if type(most) is not int or not 1 <= most <= self._max_tokens:
            message = f"the server was built for 1 to {self._max_tokens} new tokens"
            raise ValueError(message)
        prompt = self._read_prompt(content.get("prompt"))
        ends = frozenset() if content.get("ignore_eos") else self._programs.ends
        return TextJob(prompt, most, ends, asyncio.Queue(), asyncio.get_running_loop())

    def _read_prompt(self, prompt: Any) -> list[int]:
        if isinstance(prompt, list) and len(prompt) == 1 and not isinstance(prompt[0], int):
            prompt = prompt[0]
        if isinstance(prompt, str) and self._tokenizer is not None:
            prompt = list(self._tokenizer(prompt)["input_ids"])
        vocabulary = self._programs.vocabulary
        if not isinstance(prompt, list) or not all(
            type(token) is int and 0 <= token < vocabulary for token in prompt
        ):
            text = "" if self._tokenizer is None else "a text or "
            message = f"the prompt is {text}a list of token numbers below {vocabulary}"
            raise ValueError(message)
        if not 1 <= len(prompt) <= self._programs.prompt_tokens:
            message = (
                f"the server was built for prompts of 1 to {self._programs.prompt_tokens} tokens"
            )
            raise ValueError(message)
        return prompt

    async def write(self, job: TextJob) -> AsyncIterator[tuple[str, str | None]]:
        """Yield the new piece of text of each token, and at the end the reason for it.

        Raise `RuntimeError` if the batch failed.
        """
        tokens: list[int] = []
        shown = ""
        try:
            while (token := await job.tokens.get()) is not None:
                if isinstance(token, RuntimeError):
                    raise token
                tokens.append(token)
                ends = token in job.ends
                is_last = ends or len(tokens) == job.max_tokens
                text = self._decode(tokens[:-1] if ends else tokens)
                if text.endswith("\ufffd") and not is_last:
                    text = shown  # a character whose bytes are not complete
                yield text[len(shown) :], ("stop" if ends else "length") if is_last else None
                shown = text
        finally:
            job.is_done = True  # also where the client has gone

    def _decode(self, tokens: list[int]) -> str:
        if self._tokenizer is None:
            return "".join(f" {token}" for token in tokens)
        return str(self._tokenizer.decode(tokens, skip_special_tokens=True))


def chunk_of(name: str, text: str, reason: str | None) -> dict[str, Any]:
    """Return a completion, or a part of one, in the form of OpenAI's API."""
    choice = {"index": 0, "text": text, "finish_reason": reason, "logprobs": None}
    return {
        "id": f"cmpl-{uuid.uuid4().hex}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": name,
        "choices": [choice],
    }


def usage_of(job: TextJob) -> dict[str, int]:
    prompt = len(job.prompt)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": job.count,
        "total_tokens": prompt + job.count,
    }


async def stream(name: str, job: TextJob, api: TextApi, *, has_usage: bool) -> AsyncIterator[str]:
    """Yield the events of a streamed completion."""
    start = chunk_of(name, "", None)
    try:
        async for text, reason in api.write(job):
            choice = {**start["choices"][0], "text": text, "finish_reason": reason}
            yield f"data: {json.dumps({**start, 'choices': [choice]})}\n\n"
    except RuntimeError as problem:
        error = {"error": {"message": str(problem), "type": "server_error"}}
        yield f"data: {json.dumps(error)}\n\n"
    if has_usage:
        yield f"data: {json.dumps({**start, 'choices': [], 'usage': usage_of(job)})}\n\n"
    yield "data: [DONE]\n\n"


async def complete(name: str, job: TextJob, api: TextApi) -> JSONResponse:
    """Return a completion when its last token is there."""
    try:
        pieces = [piece async for piece in api.write(job)]
    except RuntimeError as problem:
        return refuse(str(problem), 500)
    text = "".join(text for text, _ in pieces)
    return JSONResponse({**chunk_of(name, text, pieces[-1][1]), "usage": usage_of(job)})


def serve_texts(
    load: Callable[[str], Any],
    build: Callable[..., Any],
    sizes: Sequence[int],
    checkpoint: str,
    tokens: tuple[int, int],
) -> None:
    """Serve a language model that `build` compiles for each of `sizes`, which ascend.

    `tokens` are the tokens of a prompt and the new tokens that the programs are built for.
    """
    parser = make_parser("Serve the model at POST /v1/completions.")
    parser.add_argument("--checkpoint", default=checkpoint, help="a directory or a name on the hub")
    arguments = parser.parse_args()
    name = arguments.checkpoint or "model"
    programs = TextPrograms(load(arguments.checkpoint), build, sizes, tokens[0])
    api = TextApi(programs, open_tokenizer(arguments.checkpoint), tokens[1])
    batcher: Batcher[TextJob] = Batcher(programs.run, sizes[-1])

    async def completions(request: Request) -> Response:
        try:
            content = json.loads(await request.body())
            job = api.read(content)
        except ValueError as problem:
            return refuse(str(problem))
        batcher.add(job)
        if not content.get("stream"):
            return await complete(name, job, api)
        has_usage = bool((content.get("stream_options") or {}).get("include_usage"))
        events = stream(name, job, api, has_usage=has_usage)
        return StreamingResponse(events, media_type="text/event-stream")

    async def models(_: Request) -> JSONResponse:
        return JSONResponse({"object": "list", "data": [{"id": name, "object": "model"}]})

    routes = [
        Route("/v1/completions", completions, methods=["POST"]),
        Route("/v1/models", models),
    ]
    serve(batcher, programs.build, routes, arguments.host, arguments.port)
