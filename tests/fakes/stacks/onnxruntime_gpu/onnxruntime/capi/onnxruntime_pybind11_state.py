"""The errors of ONNX Runtime's own calls."""


class NotImplemented(RuntimeError):  # noqa: A001, N818 (the name of the real class)
    """No kernel implements a node for the types of its inputs."""


class Fail(Exception):  # noqa: N818 (as above)
    """A file cannot be loaded, for example because an operator is unknown."""


class InvalidArgument(Exception):  # noqa: N818 (as above)
    """A call has the wrong inputs, or a file has no graph."""


class InvalidGraph(Exception):  # noqa: N818 (as above)
    """The nodes of a file do not fit each other."""


class InvalidProtobuf(Exception):  # noqa: N818 (as above)
    """A file is no ONNX file."""


class RuntimeException(Exception):  # noqa: N818 (as above)
    """A call fails in a kernel."""
