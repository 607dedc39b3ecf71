"""Configuration that all workers of a run share, and the request of each worker."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

import msgspec

from advisor.domain.accuracy import AccuracyRules
from advisor.domain.catalogue import Catalogue
from advisor.domain.model import has_random_weights
from advisor.domain.plan import BASELINE_SNIPPET, REFERENCE, SNIPPET, Arm, probe_file
from advisor.domain.question import Question
from advisor.domain.run_state import Header
from advisor.domain.serving import divide_processors
from advisor.probing.bytecode import Bytecode
from probes import protocol
from probes.outcome import Phase

#: Rules of accuracy that workers do not use.
UNUSED_RULES = {"source", "quantised", "losses"}
#: Number of input sets that alternate. A call that generates reads many tokens, so two suffice.
INPUT_SETS = {protocol.FORWARD: 4, protocol.GENERATE: 2}
#: Role of each worker that does not measure an arm, by its id.
ROLES: Mapping[str, protocol.Role] = {
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
    #: Of the packages of the question's interpreter; None if they have it beside their sources.
    bytecode: Bytecode | None = None

    @property
    def question(self) -> Question:
        return self.header.question

    @property
    def catalogue(self) -> Catalogue:
        return self.header.catalogue

    @property
    def deadlines(self) -> dict[Phase, float]:
        """Seconds of the phases of a worker, with those that the user has set."""
        own = self.question.max_open_seconds
        return {**self.catalogue.presets.deadlines, **({"open": own} if own else {})}

    @property
    def threads(self) -> int:
        """Threads that a worker may compute with: one for each core that no load generator uses."""
        cpu, serving = self.header.machine.cpu, self.catalogue.serving
        if not self.question.serves:
            return cpu.physical_cores
        left, _ = divide_processors(range(cpu.usable_processors), serving.generator_share)
        return min(cpu.physical_cores, len(left))

    def worker_request(
        self, planned: Arm, scratch: pathlib.Path, shared: pathlib.Path, *, repeat: int = 0
    ) -> protocol.Request:
        """Return the request of a worker of the arm.

        The worker writes to `scratch` and reads weights and references from `shared`. Only one
        process of each arm, not one of a repetition, measures the loss of a trained model, and
        calls the same input again to see whether its outputs vary.
        """
        question, catalogue = self.question, self.catalogue
        engine = catalogue.engine_memory.get(planned.workflow)
        memory = msgspec.structs.asdict(engine) if engine else {}
        is_first = repeat == 0 and planned.duplicate_of is None
        # The texts of a server are generated like any other.
        task = protocol.GENERATE if question.task == "serve" else question.task
        return protocol.Request(
            arm=planned.id,
            workflow_file=str(self.probes_directory / "workflows" / probe_file(planned.workflow)),
            options=planned.options,
            subject=msgspec.to_builtins(question.model),
            dtype=question.dtype,
            device=question.device,
            batch_sizes=list(question.batch_sizes),
            input_tokens=question.input_tokens,
            output_tokens=question.output_tokens,
            lengths=[
                list(question.pair_of(each))
                for each in question.lengths
                if len(question.lengths) > 1
            ],
            task=task,
            seed=question.seed,
            threads=self.threads,
            trust_remote_code=question.trust_remote_code,
            allow_pickle=question.allow_pickle,
            visit_seconds=catalogue.presets.visit_seconds,
            most_host_slowdown=catalogue.presets.visit_limits.most_host_slowdown,
            accuracy=accuracy_thresholds(rules_of(planned, catalogue.accuracy, question.accuracy)),
            checks_repeats=is_first,
            quantiser=planned.quantiser,
            role=ROLES.get(planned.id, "serve" if question.serves else "measure"),
            shared_directory=str(shared),
            scratch_directory=str(scratch),
            input_sets=INPUT_SETS[task],
            warmup_seconds=catalogue.presets.warmup_seconds[question.device],
            minimum_engaged_share=catalogue.rubric.minimum_engaged_share,
            sandbox=question.sandbox,
            long_text=self._long_text() if is_first else {},
            metric=question.metric if is_first else "",
            new_shapes=question.budget.tries_new_shapes and not question.serves,
            load=self._load_limits(),
            devices_per_model=question.devices_per_model,
            supported_dtypes=list(planned.dtypes),
            engine_memory={name: value for name, value in memory.items() if name != "source"},
        )

    def _load_limits(self) -> protocol.RequestLoad:
        question, load, serving = self.question, self.question.load, self.catalogue.serving
        if load is None:
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

    def _long_text(self) -> protocol.LongTextOptions:
        """Return how a trained language model's losses are measured; empty if they are not."""
        question, rule = self.question, self.catalogue.accuracy.losses
        wanted = question.quantised and question.task == protocol.GENERATE
        if not wanted or has_random_weights(question.model):
            return {}
        return {"tokens": rule.tokens, "seconds": rule.seconds, "data": question.data}


def rules_of(planned: Arm, rules: AccuracyRules, tolerance: float | None) -> AccuracyRules:
    if planned.weight_format is None:
        return rules.with_tolerance(tolerance)
    return rules.for_quantised_weights()


def accuracy_thresholds(rules: AccuracyRules) -> dict[str, Any]:
    values: dict[str, Any] = msgspec.to_builtins(rules)
    return {name: value for name, value in values.items() if name not in UNUSED_RULES}
