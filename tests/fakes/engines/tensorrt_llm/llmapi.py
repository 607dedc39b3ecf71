import types

from tensorrt_llm import check


class KvCacheConfig(types.SimpleNamespace):
    def __init__(self, **arguments):
        check("KvCacheConfig", arguments)
        super().__init__(**arguments)


class CudaGraphConfig(types.SimpleNamespace):
    def __init__(self, **arguments):
        check("CudaGraphConfig", arguments)
        super().__init__(**arguments)
