"""A run as text for a terminal: the instruction first, then how far it can be trusted, then the figures. Plain characters, no markup."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.domain.decision import BreakEven, Flip, Recommendation, TreeAdvice
from advisor.domain.run import resumption_of
from advisor.report.document import PUBLISHED, RunDocument, WorkflowEntry
from advisor.report.text_generation import generated

LETTERS = {3: "A", 2: "B", 1: "C"}
CRITERIA = (
    ("performance", "Perf"),
    ("productivity", "Prod"),
    ("portability", "Port"),
    ("input_flexibility", "Flex"),
    ("architecture_support", "Arch"),
)
NOTHING = "-"


def render(document: RunDocument) -> str:
    """Return the whole table."""
    blocks = [
        [headline(document), *stopped(document), *honesty(document)],
        ranking(document),
        generated(document),
        left_out(document),
        carried(document),
        surveyed(document),
        closing(document),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def headline(document: RunDocument) -> str:
    """Return the instruction."""
    advice = document.recommendation
    if advice is None:
        return f"No recommendation: {document.problem.what if document.problem else 'nothing was decided'}"
    model, device = document.question.model.name, device_name(document)
    if advice.ties:
        return f"Tie for {model} on {device}: use {advice.arm}, or as well {', '.join(advice.ties)}"
    return f"Use {advice.arm} for {model} on {device}"


def device_name(document: RunDocument) -> str:
    """Return the name of what was measured on."""
    gpu = next((gpu for gpu in document.machine.gpu if gpu.uuid == document.question.gpu), None)
    return gpu.name if gpu else document.question.gpu or document.machine.cpu.model


def stopped(document: RunDocument) -> list[str]:
    """Return a line that says so when the run has not come to its end; one that was made elsewhere can only be finished there."""
    if document.finished:
        return []
    is_here = not (document.imported or document.provenance)
    return [
        "Stopped before its end"
        + (f": {resumption_of(document.run_id)} goes on." if is_here else ".")
    ]


def honesty(document: RunDocument) -> list[str]:
    """Return how sure the advice is and what would change it."""
    advice, race = document.recommendation, document.race
    origin = [f"Imported: {document.provenance.words}"] if document.provenance else []
    if advice is None:
        return [*origin, *([f"Next: {document.problem.next_step}"] if document.problem else [])]
    lead = (
        f"lead {advice.margin:+.2f} over {advice.runner_up}"
        if advice.runner_up and advice.margin is not None
        else "no rival"
    )
    noise = f"{race.noise_floor:.1%}" if race and race.noise_floor is not None else "not known"
    lines = [
        *origin,
        f"Speeds: {advice.verdict}. Trust: {advice.trust}. Noise floor: {noise}. Score: {lead}.",
    ]
    lines += [
        flip_line(flip, getattr(document.question.priorities, flip.criterion))
        for flip in advice.flips
    ]
    return lines


def flip_line(flip: Flip, now: float) -> str:
    """Return what a flip says in a sentence."""
    return f"Flips to {flip.to} when {flip.criterion} weighs {flip.when} than {flip.weight:.1f} % (now {now:g} %)."


def ranking(document: RunDocument) -> list[str]:
    """Return the arms with a score, best first."""
    ranked = [entry for entry in document.workflows if entry.rank is not None]
    if not ranked:
        return []
    sizes = [cell.batch_size for cell in ranked[0].cells]
    unit = "tok/s" if any(cell.generation for cell in ranked[0].cells) else "ms"
    header = [
        "#",
        "arm",
        "speed-up",
        *(f"{unit} @{size}" for size in sizes),
        "build s",
        "MiB",
        *(short for _, short in CRITERIA),
        "score",
    ]
    return align([header, *(_row(entry, sizes) for entry in ranked)], left=1)


def _row(entry: WorkflowEntry, sizes: Sequence[int]) -> list[str]:
    speeds = {
        cell.batch_size: f"{cell.throughput.value:.0f}"
        if cell.generation
        else f"{cell.seconds.median * 1e3:.3g}"
        for cell in entry.cells
    }
    memory = entry.memory_bytes.peak_mebibytes if entry.memory_bytes else None
    scores = entry.scores or {}
    return [
        str(entry.rank) + ("!" if entry.fails else ""),
        entry.arm,
        f"{entry.speedup.value:.2f}x" if entry.speedup else NOTHING,
        *(speeds.get(size, NOTHING) for size in sizes),
        f"{entry.build_seconds.cold:.1f}" if entry.build_seconds else NOTHING,
        str(memory) if memory is not None else NOTHING,
        *(LETTERS[scores[name].tier] if name in scores else NOTHING for name, _ in CRITERIA),
        f"{entry.score:.2f}" if entry.score is not None else NOTHING,
    ]


def left_out(document: RunDocument) -> list[str]:
    """Return the workflows without a measurement, each with its reason, and the arms that fail a constraint."""
    lines = [
        f"  {entry.arm}: {'; '.join(entry.fails)}" for entry in document.workflows if entry.fails
    ]
    for entry in document.workflows:
        if entry.rank is None:
            lines.append(f"  {entry.arm}: {entry.status}, {entry.reason}")
            # How to get what is not installed is among the next steps of the answer.
            lines += (
                [f"    next: {entry.fix}"] if entry.fix and entry.status != "not-installed" else []
            )
    return ["Not in the ranking, or barred by a constraint (!):", *lines] if lines else []


def carried(document: RunDocument) -> list[str]:
    """Return the performance portability over the platforms, which are named."""
    found = document.portability
    if found is None:
        return []
    names = [
        f"{platform.name} (run {platform.run}, {platform.created[:10]})"
        for platform in found.platforms
    ]
    header = [
        "application",
        *(f"[{place}]" for place in range(1, len(names) + 1)),
        "portability",
        "of peak",
        "same code",
    ]
    rows = [
        [
            entry.application,
            *(_share(entry.efficiencies[platform.name]) for platform in found.platforms),
            _share(entry.performance_portability),
            _share(entry.architectural_portability),
            _share(entry.code_convergence),
        ]
        for entry in found.applications
    ]
    where = ", ".join(f"[{place}] {name}" for place, name in enumerate(names, start=1))
    what = "Performance portability: harmonic mean of the speeds against the fastest workflow of each platform, 0 where one cannot run:"
    return [what, *(f"  {line}" for line in align([header, *rows], left=0)), f"  {where}"]


def _share(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"


def surveyed(document: RunDocument) -> list[str]:
    """Return what each workflow made of the panel of small models, with the reason for every model that did not pass."""
    lines = []
    for survey in document.surveys:
        origin = f" (run {survey.run})" if survey.run else ""
        lines.append(f"  {survey.workflow}: {survey.passed} of {survey.tried} pass{origin}")
        lines += [
            f"    {one.model}: {one.verdict}, {one.reason}"
            for one in survey.models
            if one.verdict != "pass"
        ]
    return ["Survey of small models:", *lines] if lines else []


def closing(document: RunDocument) -> list[str]:
    """Return the reasons, what is missing, and where the run is."""
    advice = document.recommendation
    lines = []
    if advice is not None:
        lines += ["Why:", *(f"  {reason}" for reason in advice.reasons)]
        lines += standing(advice)
        lines += (
            [
                "What keeps the trust from being higher:",
                *(f"  {reason}" for reason in advice.trust_reasons),
            ]
            if advice.trust_reasons
            else []
        )
    return [*lines, last_line(document)]


def last_line(document: RunDocument) -> str:
    """Return where every figure is; an answer for a GPU that is not here is not stored, so it has to be asked for again."""
    where = "Published figures" if document.run_id == PUBLISHED else f"Run {document.run_id}"
    command = document.again or f"p3-advisor show {document.run_id} --json"
    return f"{where}; tiers: A best, C least; {command} has every figure and its source."


def standing(advice: Recommendation) -> list[str]:
    """Return how firmly the answer stands, what its build costs, and what published advice says."""
    lines = []
    if advice.simplex_share is not None:
        lines.append(f"  it leads at {advice.simplex_share:.0%} of all weights of the three Ps")
    if advice.pareto:
        lines.append(f"  no arm is better in everything than any of {', '.join(advice.pareto)}")
    lines += [_break_even_line(entry) for entry in advice.break_even]
    lines += [
        f"  serving with {cost.arm} at batch size {cost.batch_size}: {cost.value:.3g} a {cost.unit}"
        for cost in advice.costs
        if cost.arm == advice.arm
    ]
    lines += [
        f"  {use.arm} at batch size {use.batch_size}: {use.joules_per_call:.3g} J a call, {use.watt_hours:.3g} Wh a thousand requests"
        for use in advice.energy
    ]
    if advice.guideline is not None:
        words = {
            True: "the evidence agrees",
            False: "the evidence disagrees",
            None: "the evidence cannot tell",
        }
        lines += [
            f"Published advice: {advice.guideline.says}",
            f"  {words[advice.guideline.agrees]}: {advice.guideline.why}",
        ]
    if advice.tree:
        lines += [
            "Decision tree of the handbook:",
            *(f"  {line}" for line in _tree_lines(advice.tree)),
        ]
    if advice.next_steps:
        lines += ["Next:", *(f"  {step}" for step in advice.next_steps)]
    return lines


def _tree_lines(tree: Sequence[TreeAdvice]) -> list[str]:
    """Return where the tree leads, one line for each place, with the way to it."""
    return [
        "; ".join(f"{step.question} {'yes' if step.answer else 'no'}" for step in advice.steps)
        + f": {advice.says}"
        for advice in tree
    ]


def _break_even_line(entry: BreakEven) -> str:
    if entry.requests is None:
        return (
            f"  at batch size {entry.batch_size} its build is never paid back against the baseline"
        )
    least, most = (
        f"{end:,.0f}" if end is not None else "not bounded" for end in (entry.low, entry.high)
    )
    return f"  at batch size {entry.batch_size} its build is paid back after {entry.requests:,.0f} requests (95 %: {least} to {most})"


def align(rows: Sequence[Sequence[str]], left: int | None = None) -> list[str]:
    """Return the rows as lines with aligned columns: all to the left, or only the column `left` and the others to the right."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if left in {None, place} else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
