"""The part of torch that an engine's probe uses, without any computation."""

import os
import types

__version__ = "0.0"
cuda = types.SimpleNamespace(
    is_initialized=lambda: False,
    get_device_properties=lambda _: types.SimpleNamespace(total_memory=140 << 30),
    get_device_capability=lambda: tuple(
        map(int, os.environ.get("FAKE_COMPUTE_CAPABILITY", "8.9").split("."))
    ),
    mem_get_info=lambda: (40 << 30, 140 << 30),
)


class autograd:  # noqa: N801
    DeviceType = types.SimpleNamespace(CUDA="cuda")

    class profiler:  # noqa: N801
        class profile:  # noqa: N801
            kineto_results = types.SimpleNamespace(events=tuple)

            def __init__(self, *, use_kineto, use_device):
                pass

            def __enter__(self):
                return self

            def __exit__(self, *_):
                return None
