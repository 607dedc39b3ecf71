"""Where the workers of a run live, and what each of them is asked."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping

import msgspec

from advisor.domain.machine import Machine
from advisor.domain.plan import CROSS_BUILD, REFERENCE, Arm
from advisor.domain.question import Question
from advisor.probing.environments import containers, thread_count
from probes import protocol

#: Inputs that take turns; a call that generates is many passes over many tokens, and long.
INPUT_SETS = {protocol.FORWARD: 4, protocol.GENERATE: 2}
BLOCK_SECONDS = 0.05
#: Clocks of a GPU take longer to settle than those of a processor.
WARMUP_SECONDS = {"cpu": 0.2, "cuda": 0.5}
#: What a process is for that is no arm.
ROLES = {REFERENCE: "reference", CROSS_BUILD: "build"}


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """Where the workers of one run live."""

    question: Question
    machine: Machine
    #: Control directories, one for each process of each arm; kept.
    arms: pathlib.Path
    #: Weights, references, caches and artefacts; removed when the run is finished.
    scratch: pathlib.Path
    #: `probes/`, or what stands in for it.
    probes: pathlib.Path
    minimum_engaged_share: float
    environment: Mapping[str, str]

    @property
    def threads(self) -> int:
        """Threads that a worker may compute with."""
        return thread_count(self.machine)

    def request_for(
        self, arm: Arm, scratch: pathlib.Path, shared: pathlib.Path
    ) -> protocol.Request:
        """Return what a worker of `arm` is asked; it may write into `scratch`, and finds weights and references in `shared`."""
        question = self.question
        return protocol.Request(
            version=protocol.VERSION,
            arm=arm.id,
            workflow_file=str(self.probes / "workflows" / f"{arm.workflow.replace('-', '_')}.py"),
            options=arm.options,
            subject=msgspec.to_builtins(question.model),
            dtype=question.dtype,
            device=question.device,
            batch_sizes=list(question.batch_sizes),
            input_tokens=question.input_tokens,
            task=question.task,
            output_tokens=question.output_tokens,
            seed=question.seed,
            threads=self.threads,
            role=ROLES.get(arm.id, "measure"),
            shared_directory=str(shared),
            scratch_directory=str(scratch),
            trust_remote_code=question.trust_remote_code,
            allow_pickle=question.allow_pickle,
            input_sets=INPUT_SETS[question.task],
            block_seconds=BLOCK_SECONDS,
            warmup_seconds=WARMUP_SECONDS[question.device],
            minimum_engaged_share=self.minimum_engaged_share,
            extras={name: list(extras) for name, extras in arm.extras.items()},
        )

    def container_of(self, arm: Arm, writable: tuple[pathlib.Path, ...]) -> list[str]:
        """Return what starts Python in the arm's image; nothing for an arm that runs here."""
        if not arm.image or not self.machine.engine:
            return []
        model = pathlib.Path(self.question.model.name)
        return containers.start_python(
            self.machine.engine,
            arm.image,
            gpu=self.question.gpu,
            code=self.probes,
            writable=writable,
            readable=(model.resolve(),) if model.is_absolute() and model.exists() else (),
        )
