"""A correct workflow; its option `milliseconds` sets the seconds of a call."""

from probes.workflows.pytorch_eager import *
