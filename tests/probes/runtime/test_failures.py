from __future__ import annotations

import dataclasses
import errno
import json
import pathlib
import runpy
from typing import NamedTuple

import pytest
import workers

from probes import protocol
from probes.adapter import ModelError, NotEngagedError, UnsupportedError
from probes.checking import deviation
from probes.outcome import Failure, Phase
from probes.runtime.failures import FailureError, classify, exception_summary


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("no kernel for this\nand a second line", "no kernel for this"),
        ("\n\n   \x1b[31mred\x1b[0m  \n", "red"),
        (
            "backend='tensorrt' raised:\nValueError: Cannot broadcast (1, 2) to (2, 1)\n\nWhile",
            "backend='tensorrt' raised: ValueError: Cannot broadcast (1, 2) to (2, 1)",
        ),
        ("it failed:\nbecause of:\n", "it failed: because of:"),
        ("", "no message"),
    ],
)
def test_the_reason_is_the_first_line_that_does_not_only_announce_one(
    message: str, reason: str
) -> None:
    assert exception_summary(RuntimeError(message)) == f"RuntimeError: {reason}"


def chained(outer: Exception, cause: Exception) -> Exception:
    try:
        raise outer from cause
    except type(outer) as problem:
        return problem


def test_the_reason_has_the_exception_that_it_was_raised_from() -> None:
    guard = ValueError("could not guard on u0 > 0\n\nUser stack:\n...")
    exporting = chained(RuntimeError("\x1b[96mstep 1 of 3\x1b[0m failed\nNext steps"), guard)
    cause = "ValueError: could not guard on u0 > 0"
    assert exception_summary(exporting) == f"RuntimeError: step 1 of 3 failed; cause: {cause}"
    refused = chained(UnsupportedError("no free batch"), exporting)
    assert classify(refused, "build").reason == f"no free batch; cause: {cause}"


def test_a_circle_of_causes_ends() -> None:
    itself = ValueError("no kernel")
    assert exception_summary(chained(itself, itself)) == "ValueError: no kernel"
    first, second = RuntimeError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    assert exception_summary(first) == "RuntimeError: first; cause: ValueError: second"


def test_a_cause_that_the_reason_quotes_is_not_repeated() -> None:
    problem = ValueError("no 4-bit weights")
    refused = chained(UnsupportedError(f"torchao: {problem}"), problem)
    assert classify(refused, "build").reason == "torchao: no 4-bit weights"


@pytest.mark.parametrize(
    ("problem", "phase", "status"),
    [
        (FailureError(Failure("incorrect", "done", "wrong")), "done", "incorrect"),
        (ModelError("no such file", "name another"), "open", "model-refused"),
        (UnsupportedError("no such operator"), "build", "unsupported"),
        (NotEngagedError("no region ran"), "correctness", "not-engaged"),
        (MemoryError(), "warmup", "out-of-memory"),
        (OSError(errno.ENOSPC, "No space left on device"), "open", "disk-full"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "build", "disk-full"),
        (RuntimeError("write failed: No space left on device"), "build", "disk-full"),
        (RuntimeError("CUDA: Out of memory."), "open", "out-of-memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "open", "out-of-memory"),
        (ImportError("no module named stack"), "import", "unsupported"),
        (KeyError("weights"), "open", "model-refused"),
        (RuntimeError("no kernel"), "measure", "build-failed"),
    ],
)
def test_an_exception_is_classified_by_its_kind_and_phase(
    problem: BaseException, phase: Phase, status: str
) -> None:
    failed = classify(problem, phase)
    assert (failed.status, failed.phase) == (status, phase)


@pytest.mark.parametrize(
    ("problem", "missing"),
    [
        (ModuleNotFoundError("no module", name="absent_stack.layers"), "absent_stack"),
        # The interpreter has it, but without this submodule: another version is needed.
        (ModuleNotFoundError("no module", name="json.layers"), None),
        (ModuleNotFoundError("no module", name="x; reboot"), None),
        (ModuleNotFoundError("no module"), None),
        (ImportError("cannot import name", name="absent_stack"), None),
    ],
)
def test_a_module_that_the_interpreter_does_not_have_is_named(
    problem: BaseException, missing: str | None
) -> None:
    refused = classify(problem, "open")
    assert refused.status == "model-refused"
    assert classify(SystemExit(2), "open").fix != classify(KeyError("weights"), "open").fix
    assert refused.missing_module == missing
    assert (refused.fix is None) == (missing is not None)


def test_a_model_that_cannot_be_opened_has_a_place() -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        1 / 0  # noqa: B018 - raises in this file
    assert f" at {pathlib.Path(__file__).name}:" in classify(raised.value, "open").reason


@pytest.mark.parametrize(
    ("problem", "mentions", "kind"),
    [
        (TypeError("forward() missing 1 required positional argument: 'x'"), "third value", None),
        (RuntimeError("\"addmm_impl_cpu_\" not implemented for 'Half'"), "--dtype", None),
        (RuntimeError("CUDA error: device-side assert triggered"), "different rows", None),
        (RuntimeError("Expected all tensors to be on the same device"), "device=x.device", None),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), "fix the error", None),
        (RuntimeError("one Tensor does not require grad"), "requires_grad_()", None),
        (IndexError("index out of range in self"), "--input-tokens", "transformers"),
    ],
)
def test_a_model_that_raises_in_eager_is_not_a_failed_build(
    problem: Exception, mentions: str, kind: str | None
) -> None:
    request = reference_request(kind or "factory")
    found = classify(problem, "correctness", request)
    assert found.status == "model-failed"
    assert mentions in (found.fix or "")
    measuring = dataclasses.replace(request, role="measure")
    assert classify(problem, "correctness", measuring).status == "build-failed"


def reference_request(kind: str = "factory") -> protocol.Request:
    return workers.subject_request({"kind": kind}, role="reference")


def test_the_line_of_the_users_code_is_named(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "their_model.py"
    file.write_text("\ndef forward():\n    raise ValueError('shapes differ')\n")
    with pytest.raises(ValueError, match="shapes differ") as problem:
        runpy.run_path(str(file))["forward"]()
    assert "their_model.py:3" in classify(problem.value, "correctness", reference_request()).reason


@pytest.mark.parametrize("phase", ["open", "correctness"])
def test_an_error_of_this_package_is_not_the_models(phase: Phase) -> None:
    with pytest.raises(AttributeError) as problem:
        deviation.sample(None)
    found = classify(problem.value.with_traceback(problem.tb.tb_next), phase, reference_request())
    assert found.status == "build-failed"
    assert "defect of p3-advisor at " in found.reason


def test_a_line_of_the_standard_library_is_not_that_of_the_user() -> None:
    with pytest.raises(json.JSONDecodeError) as problem:
        json.loads("{")
    own = pathlib.Path(__file__).name
    assert f"at {own}:" in classify(problem.value, "correctness", reference_request()).reason


def test_the_cause_of_a_long_reason_is_shown_after_its_first_sentences() -> None:
    advice = "- Modify the model code, see https://pytorch.org/docs/stable/" + "x" * 200
    outer = f"Failed to export. This is step 1/3. Next steps:\n{advice}\n- Search for issues"
    summary = exception_summary(chained(RuntimeError(outer), ValueError("unknown output")))
    assert summary == (
        "RuntimeError: Failed to export. This is step 1/3; cause: ValueError: unknown output"
    )
    unbroken = exception_summary(chained(RuntimeError("x" * 400), ValueError("y")))
    assert unbroken.endswith("x; cause: ValueError: y")


@pytest.mark.stack
@pytest.mark.parametrize("is_registered", [False, True])
def test_outputs_in_a_class_that_cannot_be_exported_have_a_next_step(
    *, is_registered: bool
) -> None:
    torch = pytest.importorskip("torch")
    made = dataclasses.make_dataclass("Made", [("values", torch.Tensor)])
    if is_registered:
        torch.export.register_dataclass(made)  # but without the name that packages need

    class Model(torch.nn.Module):  # type: ignore[name-defined]
        def forward(self, x: object) -> object:
            return made(x + 1)  # type: ignore[operator]

    def make_package() -> None:
        exported = torch.export.export(Model(), (torch.zeros(2),), strict=False)
        torch.utils._pytree.treespec_dumps(exported.call_spec.out_spec)

    with pytest.raises(RuntimeError) as raised:
        make_package()
    refused = chained(UnsupportedError("no free batch"), raised.value)
    for problem in (raised.value, refused):
        found = classify(problem, "build")
        assert (found.status, "Made" in found.reason) == ("unsupported", True)
        assert "register_dataclass(Made, serialized_type_name=" in (found.fix or "")


class Pair(NamedTuple):
    first: int
    second: int


@pytest.mark.stack
def test_a_named_tuple_that_a_package_does_not_know_has_a_next_step() -> None:
    pytree = pytest.importorskip("torch").utils._pytree
    # What PyTorch raises for it, without a class of its own.
    with pytest.raises(NotImplementedError) as raised:
        pytree.treespec_dumps(pytree.tree_structure(Pair(1, 2)))
    found = classify(raised.value, "build")
    assert found.status == "unsupported"
    assert "_register_namedtuple(Pair, serialized_type_name=" in (found.fix or "")


@pytest.mark.stack
def test_a_branch_on_values_that_cannot_be_exported_has_a_place_and_a_next_step(
    tmp_path: pathlib.Path,
) -> None:
    torch = pytest.importorskip("torch")
    file = tmp_path / "branching.py"
    file.write_text(
        "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
        "        return x + 1 if x.sum() > 0 else x - 1\n"
    )
    model = runpy.run_path(str(file))["Model"]()
    with pytest.raises(RuntimeError) as raised:
        torch.export.export(model, (torch.zeros(2),), strict=False)
    outer = chained(RuntimeError("Failed to export the model"), raised.value)
    for problem in (raised.value, outer, chained(UnsupportedError("no batch"), raised.value)):
        found = classify(problem, "build")
        assert found.status == "unsupported"
        assert " at branching.py:6: " in found.reason
        assert "torch.where" in (found.fix or "")


def test_a_layout_that_a_compiled_encoder_layer_does_not_have_has_a_next_step() -> None:
    """The message is that of PyTorch 2.13 for a layer whose input is transposed."""
    wrong = "expected size 160==160, stride 256==1 at dim=1"
    operator = "torch.ops.aten._transformer_encoder_layer_fwd.default"
    found = classify(AssertionError(f"{wrong}\nError in op: {operator}\nThis error"), "build")
    assert "TransformerEncoderLayer" in found.reason
    assert "torch.backends.mha.set_fastpath_enabled(False)" in (found.fix or "")
    other = classify(AssertionError(f"{wrong}\nError in op: torch.ops.aten.mm"), "build")
    assert (other.status, other.fix) == ("build-failed", None)


def test_quantised_layers_have_a_next_step_with_the_value_of_its_option() -> None:
    error = TypeError("__torch__.torch.classes.quantized.LinearPackedParamsBase: __obj_flatten__")
    step = classify(error, "build").fix
    assert step is not None
    assert step.endswith("--quantised int8")
