"""The errors of ONNX Runtime's own calls."""


class NotImplemented(RuntimeError):  # noqa: A001, N818 (the name of the real class)
    """No kernel implements a node for the types of its inputs."""
