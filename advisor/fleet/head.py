"""Check a cluster's head node before Ray joins it: that it is reachable, and who else may join.

This module does not import Ray, which reads its variables when it is imported, and ends a process
that has tried to reach its head for a minute.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
from collections.abc import MutableMapping

from advisor.errors import FleetUnreachableError, OpenFleetError

#: Address of a cluster that is started on this machine.
LOCAL = "local"
#: Who may join a cluster, and so run code on its nodes: those with its token, or everyone.
AUTH_MODE, TOKEN, EVERYONE = "RAY_AUTH_MODE", "token", "disabled"
#: Ray itself waits minutes for an address that does not answer.
CONNECT_SECONDS = 10


def is_reachable(address: str) -> bool:
    """Return whether the head accepts connections; True for an address without a port."""
    try:
        check_address(address)
    except FleetUnreachableError:
        return False
    return True


def check_address(address: str) -> None:
    """Raise `FleetUnreachableError` when nothing listens there; skip an address without a port."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
        except (OSError, OverflowError) as problem:
            raise unreachable(address, problem) from problem


def protect_local(environment: MutableMapping[str, str]) -> None:
    """Let a cluster that Ray starts listen on this machine only, to those with its new token."""
    environment[AUTH_MODE] = TOKEN
    environment["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    # Ray names it after the systems on which it listens on the loopback address by default.
    environment["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"


def refuse_open(address: str) -> None:
    """Raise `OpenFleetError` for a cluster that everyone may join, unless the user allows it."""
    mode = os.environ.get(AUTH_MODE)
    if mode != EVERYONE and (mode != TOKEN or _answers_without_token(address)):
        raise OpenFleetError(
            f"the cluster at {address!r} may not authenticate its clients, so everyone who "
            "reaches it could run code on its nodes",
            f"start it and this with {AUTH_MODE}={TOKEN}, see docs/fleet.md, or allow it with "
            f"{AUTH_MODE}={EVERYONE}",
        )


def _answers_without_token(address: str) -> bool:
    named = () if address == "auto" else ("--address", address)
    asked = subprocess.run(  # noqa: S603 - an argument list, no shell
        [sys.executable, "-m", "ray.scripts.scripts", "health-check", *named],
        env={**os.environ, AUTH_MODE: EVERYONE},
        capture_output=True,
        check=False,
    )
    return asked.returncode == 0


def unreachable(address: str, problem: Exception) -> FleetUnreachableError:
    first_line = str(problem).strip().partition("\n")[0]
    return FleetUnreachableError(
        f"no Ray cluster answers at {address!r}: {first_line}",
        "check ray status there, and that RAY_AUTH_TOKEN or ~/.ray/auth_token has its token",
    )


def connection_lost(what: str) -> FleetUnreachableError:
    """Return the error for a cluster that was joined and is gone."""
    return FleetUnreachableError(
        f"the connection to {what} is lost; results and measurements so far are stored",
        "restart the cluster, then: p3-advisor fleet --resume",
    )
