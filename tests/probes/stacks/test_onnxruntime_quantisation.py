"""INT8 weights have 7 bits on processors whose sums of 8-bit products overflow."""

from __future__ import annotations

import pathlib

import pytest

pytest.importorskip("onnxruntime", reason="pip install 'p3-advisor[stack]'")

from probes.stacks import onnxruntime_quantisation

pytestmark = pytest.mark.stack


@pytest.mark.parametrize(
    ("processors", "saturates"),
    [
        ("processor\t: 0\nflags\t\t: fpu avx avx2 fma\n", True),
        ("flags\t\t: fpu avx2 avx512f avx512_vnni\n", False),
        ("flags\t\t: fpu avx2 avx_vnni\n", False),
        ("flags\t\t: fpu sse2\n", False),
        ("Features\t: fp asimd asimddp\n", False),
    ],
    ids=["AVX2", "AVX-512 with VNNI", "AVX2 with VNNI", "SSE2", "Arm"],
)
def test_sums_overflow_with_avx2_and_without_vnni(
    tmp_path: pathlib.Path, processors: str, saturates: bool
) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text(processors)
    assert onnxruntime_quantisation.sums_saturate(file) is saturates
