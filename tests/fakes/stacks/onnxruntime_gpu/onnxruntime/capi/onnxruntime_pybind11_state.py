"""The errors of ONNX Runtime's own calls."""


class NotImplemented(RuntimeError):  # noqa: A001, N818 (the name of the real class)
    """No kernel implements a node for the types of its inputs."""


#: An operator is unknown, inputs are wrong, nodes do not fit, a file is none, a kernel fails.
Fail, InvalidArgument, InvalidGraph, InvalidProtobuf, RuntimeException = (
    type(name, (Exception,), {})
    for name in ("Fail", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "RuntimeException")
)
