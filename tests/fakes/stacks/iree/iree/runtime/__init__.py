import json
import pathlib
import types

DRIVERS = {"llvm-cpu": {"local-task", "local-sync"}, "cuda": {"cuda"}}
flags = types.SimpleNamespace(parse_flags=lambda *_: None)


class Config:
    def __init__(self, driver):
        self.driver = driver
        self.device = f"{driver}://"


class Array:
    def __init__(self, values):
        self.values = values

    def to_host(self):
        return self.values


class VmModule:
    name = "module"
    function_names = ("__init", "main$async", "main")

    @classmethod
    def mmap(cls, _instance, file):
        module = cls()
        module.made = json.loads(pathlib.Path(file).read_bytes())
        return module

    def __getitem__(self, _name):
        return Array


class ParameterIndex:
    def load(self, file):
        self.weights = pathlib.Path(file).read_text()

    def create_provider(self, scope):
        return {scope: self.weights}


class ParametersModule:
    name = "io_parameters"

    def __init__(self, scopes):
        self.scopes = scopes


def create_io_parameters_module(_instance, *providers):
    return ParametersModule({scope for provider in providers for scope in provider})


class SystemContext:
    def __init__(self, config):
        self.config = config
        self.instance = None
        self.modules = {}

    def add_vm_module(self, module):
        self.modules[module.name] = module
        if isinstance(module, ParametersModule):
            return
        needed = module.made["parameters"]
        if needed and needed not in getattr(self.modules.get("io_parameters"), "scopes", ()):
            message = "NOT_FOUND; required module 'io_parameters' not registered on the context"
            raise RuntimeError(message)
        if self.config.driver not in DRIVERS[module.made["target"]]:
            message = f"NOT_FOUND; HAL device `{self.config.device}` not found or unavailable"
            raise RuntimeError(message)
