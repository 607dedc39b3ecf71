"""What models change in the process and come wrapped in: settings, compilers, hooks."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from lazy import adjustments, factory, pytorch, pytorch_eager, torch
from reference_cases import MODEL, Factories

from probes.adapter import ModelError
from probes.facts import TRAINING_MODE

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("here")]

MODELS = """
def parts():
    layers = torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)
    return torch.nn.Sequential(*layers).eval()


def compiled():
    return torch.compile(parts()), torch.randn(2, 16)


def with_a_compiled_part():
    module = parts()
    module[0] = torch.compile(module[0])
    return module, torch.randn(2, 16)


def compiled_in_place():
    module = parts()
    module.compile()
    return module, torch.randn(2, 16)


def with_a_compiled_forward():
    class CompiledForward(torch.nn.Linear):
        @torch.compile
        def forward(self, x):
            return super().forward(x)

    return CompiledForward(16, 4).eval(), torch.randn(2, 16)


def with_a_compiled_attribute():
    module = parts()
    module.forward = torch.compile(module.forward)
    return module, torch.randn(2, 16)


def in_training():
    return parts().train(), torch.randn(2, 16)


def with_settings():
    torch.set_num_threads(torch.get_num_threads() + 1)
    torch.set_float32_matmul_precision("medium")
    torch.set_default_dtype(torch.float64)
    torch.backends.mkldnn.enabled = False
    return parts().float(), torch.randn(2, 16).float()


def with_fp32_precision():
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    torch.backends.mkldnn.conv.fp32_precision = "bf16"
    return parts(), torch.randn(2, 16)


def with_a_hook():
    module = parts()
    module.register_forward_hook(lambda module, inputs, output: output + 100)
    module[1].register_forward_pre_hook(lambda module, inputs: (inputs[0] * 2,))
    return module, torch.randn(2, 16)


class Tools:
    pass


def calling(function):
    return lambda: (
        Model(lambda layers, x: function(layers["a"](x)), a=torch.nn.Linear(16, 4)).eval(),
        torch.randn(2, 16),
    )


def calls_a_compiled_global():
    global COMPILED
    COMPILED = torch.compile(torch.sin)
    return calling(lambda x: COMPILED(x))()


def calls_a_compiled_method():
    Tools.double = staticmethod(torch.compile(lambda x: 2 * x))
    return calling(lambda x: Tools.double(x))()


def calls_in_a_list():
    functions = [torch.compile(torch.tanh)]
    return calling(lambda x: functions[0](x))()


sets_threads = calling(lambda x: torch.set_num_threads(torch.get_num_threads() + 1) or x)
sets_precision = calling(lambda x: torch.set_float32_matmul_precision("medium") or x)
sets_fp32 = calling(lambda x: setattr(torch.backends.mkldnn.conv, "fp32_precision", "bf16") or x)
sets_fastpath = calling(lambda x: torch.backends.mha.set_fastpath_enabled(False) or x)
sets_deterministic = calling(lambda x: torch.use_deterministic_algorithms(True) or x)
sets_a_variable = calling(lambda x: os.environ.update(OMP_DYNAMIC="1") or x)


def keeps_threads(x):
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    torch.set_num_threads(before)
    return x


puts_threads_back = calling(keeps_threads)


def not_to_be_compiled():
    module = parts()
    module[1].forward = torch.compiler.disable(module[1].forward)
    return module, torch.randn(2, 16)


def quantised():
    return torch.ao.quantization.quantize_dynamic(parts(), {torch.nn.Linear}), torch.randn(2, 16)
"""
FACTORIES = Factories(MODEL + MODELS)
request_for, open_subject = FACTORIES.request, FACTORIES.open
make_reference = FACTORIES.make_reference


def assert_eager(subject: Any) -> None:
    """Assert that a call compiles nothing, and that this is stated."""
    assert list(subject.adjusted) == ["torch.compile"]
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    with torch.no_grad():
        (output,) = subject.run(subject.inputs(2, 0))
    assert output.shape == (2, 4)
    assert not torch._dynamo.utils.counters["stats"]


@pytest.mark.filterwarnings("ignore:.*jit:DeprecationWarning")
@pytest.mark.parametrize(
    "function",
    [
        "compiled",
        "with_a_compiled_part",
        "compiled_in_place",
        "with_a_compiled_forward",
        "with_a_compiled_attribute",
    ],
)
def test_a_compiler_is_taken_off_and_stated(function: str) -> None:
    assert_eager(open_subject(function))


@pytest.mark.filterwarnings("ignore:.*jit:DeprecationWarning")
@pytest.mark.parametrize(
    "function", ["calls_a_compiled_global", "calls_a_compiled_method", "calls_in_a_list"]
)
def test_eager_pytorch_calls_compiled_functions_uncompiled(function: str) -> None:
    subject = pytorch_eager.open_subject(request_for(function))
    try:
        assert_eager(subject)
    finally:
        torch.compiler.set_stance("default")


@pytest.mark.parametrize(
    ("function", "setting"),
    [
        ("sets_threads", "threads"),
        ("sets_precision", "float32_matmul_precision"),
        ("sets_fp32", "mkldnn.conv.fp32_precision to bf16"),
        ("sets_fastpath", "fastpath_of_attention"),
        ("sets_deterministic", "deterministic_algorithms"),
        ("sets_a_variable", "OMP_DYNAMIC"),
        ("puts_threads_back", ""),
    ],
)
def test_settings_that_forward_changes_are_refused(
    function: str, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_DYNAMIC", "0")
    refused = pytest.raises(ModelError, match=rf"settings .*{setting}")
    try:
        with adjustments.watch_settings({}), refused if setting else contextlib.nullcontext():
            make_reference(function)
    finally:
        torch.use_deterministic_algorithms(mode=False)
        torch.backends.mha.set_fastpath_enabled(True)


def test_settings_of_the_process_are_put_back_or_kept_and_stated() -> None:
    threads = torch.get_num_threads()
    try:
        subject = open_subject("with_settings")
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.get_num_threads() == threads
    assert torch.get_float32_matmul_precision() == "highest"
    assert torch.backends.mkldnn.enabled
    assert subject.adjusted["threads"] == (
        f"set to {threads + 1} by the model, put back to {threads}"
    )
    adjusted = ", ".join(sorted(subject.adjusted))
    assert adjusted == "default_dtype, float32_matmul_precision, mkldnn, threads"


def test_precisions_of_single_operators_are_put_back_and_stated() -> None:
    subject = open_subject("with_fp32_precision")
    assert torch.get_float32_matmul_precision() == "highest"
    assert not torch.backends.cuda.matmul.allow_tf32
    assert torch.backends.mkldnn.conv.fp32_precision == "ieee"
    assert subject.adjusted == {
        "cuda.matmul.fp32_precision": "set to tf32 by the model, put back to ieee",
        "mkldnn.conv.fp32_precision": "set to bf16 by the model, put back to ieee",
    }


def test_variables_that_no_time_depends_on_are_not_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    before = adjustments.read_settings()
    monkeypatch.setenv("KMP_INIT_AT_FORK", "FALSE")
    assert adjustments.changed_settings(before) == {}
    monkeypatch.setenv("KMP_BLOCKTIME", "1")
    assert adjustments.changed_settings(before) == {"KMP_BLOCKTIME": "1"}


def test_training_mode_is_left_and_stated() -> None:
    subject = open_subject("in_training")
    assert not any(part.training for part in subject.module.modules())
    assert [*subject.adjusted] == [TRAINING_MODE]


def test_gradients_are_off_for_the_whole_process() -> None:
    request = request_for("with_a_hook", threads=torch.get_num_threads())
    try:
        assert pytorch.apply_settings(request)["gradients"] == "off"
        assert not torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)


@pytest.mark.filterwarnings("ignore:.*quant")
@pytest.mark.parametrize("function", ["with_a_hook", "quantised", "not_to_be_compiled"])
def test_the_baseline_is_what_the_factory_returned(function: str) -> None:
    subject = open_subject(function)
    reference = make_reference(function)
    torch.manual_seed(0)
    module, _ = factory.call_factory(request_for(function).subject["name"])
    with torch.no_grad():
        expected = module.eval()(*subject.tensors(reference.inputs[0]))
    found = reference.outputs[0][0].values.reshape(expected.shape)
    assert abs(found - expected.double().numpy()).max() < 1e-3 * abs(found).max()
    assert not subject.adjusted
