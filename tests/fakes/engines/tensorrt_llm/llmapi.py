import types

from tensorrt_llm import check


class KvCacheConfig(types.SimpleNamespace):
    def __init__(self, **arguments):
        check(type(self).__name__, arguments)
        super().__init__(**arguments)


class CudaGraphConfig(KvCacheConfig):
    pass
