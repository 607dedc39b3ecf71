"""The plug-in provider 0.5 on an unsupported GPU: it registers, and offers no device."""


def get_ep_name():
    return "NvTensorRTRTXExecutionProvider"


def get_library_path():
    return "libonnxruntime_providers_nv_tensorrt_rtx.so"
