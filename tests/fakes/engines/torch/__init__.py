"""The part of torch that an engine's probe uses, without any computation."""

import os
import types

__version__ = "0.0"


class cuda:  # noqa: N801
    @staticmethod
    def is_initialized():
        return False

    @staticmethod
    def get_device_properties(_device):
        return types.SimpleNamespace(total_memory=140 << 30)

    @staticmethod
    def get_device_capability():
        return tuple(map(int, os.environ.get("FAKE_COMPUTE_CAPABILITY", "8.9").split(".")))

    @staticmethod
    def mem_get_info():
        return 40 << 30, 140 << 30


class autograd:  # noqa: N801
    DeviceType = types.SimpleNamespace(CUDA="cuda")

    class profiler:  # noqa: N801
        class profile:  # noqa: N801
            function_events = ()

            def __init__(self, *, use_kineto, use_device):
                pass

            def __enter__(self):
                return self

            def __exit__(self, *_):
                return None
