"""Configuration that all workers of a run share, and the request of each worker."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

from advisor.domain.catalogue import Catalogue
from advisor.domain.model import has_random_weights
from advisor.domain.plan import (
    BASELINE_SNIPPET,
    REFERENCE,
    SNIPPET,
    Arm,
    measured_fields,
    thread_count,
    worker_task,
)
from advisor.domain.question import Question
from advisor.domain.run_state import Header
from advisor.domain.serving import server_processors
from probes import protocol

#: Number of input sets that alternate. A call that generates reads many tokens, so two suffice.
INPUT_SETS = {protocol.FORWARD: 4, protocol.GENERATE: 2}
#: The clocks of a GPU need longer to settle than those of a CPU.
WARMUP_SECONDS = {"cpu": 0.2, "cuda": 0.3}
#: Role of each worker that does not measure an arm, by its id.
ROLES = {
    REFERENCE: "reference",
    SNIPPET: "snippet",
    BASELINE_SNIPPET: "snippet",
}


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """What the workers of one run have in common."""

    header: Header
    #: Holds a control directory for each process of each arm; kept after the run.
    arms_directory: pathlib.Path
    #: Weights, references, caches and artefacts; removed when the run has finished.
    scratch_directory: pathlib.Path
    #: The folder `probes/`, or a fake of it.
    probes_directory: pathlib.Path
    #: Environment variables that workers inherit.
    environment: Mapping[str, str]

    @property
    def question(self) -> Question:
        return self.header.question

    @property
    def catalogue(self) -> Catalogue:
        return self.header.catalogue

    @property
    def threads(self) -> int:
        """Threads that a worker may compute with: not those of a load generator."""
        threads, serving = thread_count(self.header.machine), self.catalogue.serving
        if self.question.load is None or serving is None:
            return threads
        usable = self.header.machine.cpu.usable_processors
        return min(threads, server_processors(usable, serving.generator_share))

    def worker_request(
        self,
        arm: Arm,
        scratch: pathlib.Path,
        shared: pathlib.Path,
        *,
        repeat: int = 0,
    ) -> protocol.Request:
        """Return the request of a worker of `arm`.

        The worker writes to `scratch` and reads weights and references from `shared`. Only one
        process of each arm, not one of a repetition, measures the loss of a trained model, and
        calls the same input again to see whether its outputs vary.
        """
        question, catalogue = self.question, self.catalogue
        measures_losses = repeat == 0 and arm.duplicate_of is None
        return protocol.Request(
            workflow_file=str(
                self.probes_directory / "workflows" / f"{arm.workflow.replace('-', '_')}.py"
            ),
            **measured_fields(
                question, arm, self.threads, catalogue.accuracy, catalogue.engine_memory
            ),
            checks_repeats=repeat == 0 and arm.duplicate_of is None,
            quantiser=arm.quantiser,
            role=ROLES.get(arm.id, "serve" if question.load else "measure"),
            shared_directory=str(shared),
            scratch_directory=str(scratch),
            input_sets=INPUT_SETS[worker_task(question)],
            warmup_seconds=WARMUP_SECONDS[question.device],
            minimum_engaged_share=catalogue.rubric.minimum_engaged_share,
            sandbox=question.sandbox,
            long_text=self._long_text() if measures_losses else {},
            metric=question.metric if measures_losses else "",
            new_shapes=question.budget.tries_new_shapes and question.load is None,
            load=self._load_limits(),
            devices_per_model=question.devices_per_model,
            supported_dtypes=list(arm.dtypes),
        )

    def _load_limits(self) -> dict[str, Any]:
        """Return what a worker needs to start a server and to ask it; empty for other tasks."""
        question, load, serving = self.question, self.question.load, self.catalogue.serving
        if load is None or serving is None:
            return {}
        checked_tokens = question.input_tokens + question.output_tokens
        return {
            "lengths": [[each.input_tokens, each.output_tokens] for each in load.lengths],
            "most_tokens": max(load.most_tokens, checked_tokens),
            "input_tokens": max(
                question.input_tokens, *(each.input_tokens for each in load.lengths)
            ),
            "start_seconds": serving.start_seconds,
            "request_seconds": serving.request_seconds,
        }

    def _long_text(self) -> dict[str, Any]:
        """Return how a trained language model's losses are measured; empty if they are not."""
        question, rule = self.question, self.catalogue.accuracy.losses
        wanted = question.quantised and question.task == protocol.GENERATE
        if not wanted or has_random_weights(question.model):
            return {}
        return {"tokens": rule.tokens, "seconds": rule.seconds, "data": question.data}
