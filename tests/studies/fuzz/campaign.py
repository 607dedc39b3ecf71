"""Try random inputs on what reads stored runs, documents and workers, and keep what it finds.

    python tests/studies/fuzz/campaign.py --minutes 30 [--seed 7] [--target documents]
        [--inputs 10000]

Takes the named minutes, or ends after `--inputs` inputs. Each target gets an equal share of the
time. An input is a changed file, a message, or what a hostile worker tries. A defect is a
traceback, an undocumented exit code, an error without a next step, a control character in the
output, or something that is not held. Its input is stored in `tests/fuzz/regressions`, which
`tests/fuzz/test_campaign.py` tries again in every test run. The exit code is 1 if there are
defects. The result is a table of inputs and defects by target.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import pathlib
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE), str(ROOT / "tests"), str(ROOT)]

import hostile_targets
import message_targets
import program
import targets

REGRESSIONS = ROOT / "tests" / "fuzz" / "regressions"
TARGETS: dict[str, type[targets.Target]] = {
    kind.name: kind
    for kind in (
        message_targets.WorkerMessages,
        hostile_targets.Conversations,
        hostile_targets.ControlFiles,
        hostile_targets.OutsideRuns,
        targets.StoredRuns,
        targets.ExportedRuns,
        targets.Documents,
    )
}


def try_target(
    target: targets.Target, seed: int, seconds: float, most_inputs: int
) -> tuple[int, list[str]]:
    """Try inputs until the time or the number is used up; return their number and the defects."""
    end, count, found = time.monotonic() + seconds, 0, dict[str, str]()
    for input_seed in seeds(seed):
        if time.monotonic() >= end or count >= most_inputs:
            break
        value = target.make_input(random.Random(input_seed))
        count += 1
        try:
            target.try_input(value)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as problem:  # noqa: BLE001 - a defect may raise anything
            place = where(problem)
            if place not in found:
                found[place] = f"{type(problem).__name__}: {str(problem)[:300]} at {place}"
                keep(target.name, value, found[place])
    return count, list(found.values())


def seeds(seed: int) -> Iterator[int]:
    """Return the seed of each input."""
    chance = random.Random(seed)
    while True:
        yield chance.getrandbits(48)


def where(problem: BaseException) -> str:
    """Return the innermost line of our code in a traceback; it identifies the defect."""
    while problem.__cause__ is not None:
        problem = problem.__cause__
    frames = traceback.extract_tb(problem.__traceback__)
    ours = [frame for frame in frames if pathlib.Path(frame.filename).parent.name != "fuzz"]
    if not ours or isinstance(problem, program.DefectError):
        return str(problem)[:40]
    return f"{pathlib.Path(ours[-1].filename).name}:{ours[-1].name}"


def keep(name: str, value: object, found: str) -> None:
    """Store the input of a defect as a regression case."""
    content = json.dumps({"target": name, "found": found, "input": value}, indent=1)
    digest = hashlib.sha256(content.encode()).hexdigest()[:12]
    REGRESSIONS.mkdir(exist_ok=True)
    (REGRESSIONS / f"{name}-{digest}.json").write_text(content, encoding="utf-8")


def run_campaign(
    names: Sequence[str], seed: int, seconds: float, most_inputs: int = 1 << 30
) -> dict[str, tuple[int, list[str]]]:
    """Return the number of inputs and the defects by target, in `seconds` altogether."""
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        home = pathlib.Path(folder)
        for name in names:
            share = seconds / len(names)
            results[name] = try_target(TARGETS[name](home / name), seed, share, most_inputs)
    return results


def main() -> None:
    """Run the campaign of the command line and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--inputs", type=int, default=1 << 30, help="most inputs of each target")
    parser.add_argument(
        "--target", action="append", choices=TARGETS, help="only this target, repeatable"
    )
    arguments = parser.parse_args()
    names = arguments.target or list(TARGETS)
    print(f"seed {arguments.seed}", flush=True)
    results = run_campaign(names, arguments.seed, arguments.minutes * 60, arguments.inputs)
    for name, (count, defects) in results.items():
        print(f"{name:16} {count:7} inputs {len(defects):4} defects")
        for defect in defects:
            print(f"    {defect}")
    print(f"{'sum':16} {sum(count for count, _ in results.values()):7} inputs")
    sys.exit(any(defects for _, defects in results.values()))


if __name__ == "__main__":
    main()
