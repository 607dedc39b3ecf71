"""The commands of `p3-advisor`, one module for each group. `main` is the console script.

No other package exits. Beside the screens only `advisor.report.notebook` prints, the progress of
Python programs. Data goes to standard output, status lines and errors to standard error; exit codes
are those of `advisor.domain.errors`. The modules import what their commands need when these are
called, so that other commands start quickly.
"""

from advisor.cli.start import main

__all__ = ["main"]
