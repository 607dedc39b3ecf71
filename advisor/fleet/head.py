"""Check that a cluster's head node is reachable, without asking Ray.

Ray ends a process that has tried to reach its head for a minute.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from advisor.errors import FleetUnreachableError

#: Ray itself waits minutes for an address that does not answer.
CONNECT_SECONDS = 10
#: Seconds between two checks.
CHECK_SECONDS = 2
#: Seconds to wait for a head that restarts.
RESTART_SECONDS = 40


class HeadNode:
    """The head node of a cluster."""

    def __init__(
        self,
        address: str,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._address, self._clock, self._sleep = address, clock, sleep
        self._checked_at = clock()

    def is_reachable(self) -> bool:
        """Return whether the head accepts connections; a cluster without a port always is."""
        try:
            check_address(self._address)
        except FleetUnreachableError:
            return False
        return True

    def wait_until_reachable(self, *, at_once: bool = False) -> None:
        """Wait for a head that restarts; raise `FleetUnreachableError` when it does not.

        Unless `at_once`, check only every `CHECK_SECONDS`.
        """
        if self._clock() < self._checked_at + CHECK_SECONDS and not at_once:
            return
        deadline = self._clock() + RESTART_SECONDS
        while not self.is_reachable():
            if self._clock() > deadline:
                raise connection_lost(f"the head node at {self._address!r}")
            self._sleep(1)
        self._checked_at = self._clock()


def check_address(address: str) -> None:
    """Raise `FleetUnreachableError` when nothing listens there; skip an address without a port."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
        except (OSError, OverflowError) as problem:
            raise unreachable(address, problem) from problem


def unreachable(address: str, problem: Exception) -> FleetUnreachableError:
    first_line = str(problem).strip().partition("\n")[0]
    return FleetUnreachableError(
        f"no Ray cluster answers at {address!r}: {first_line}",
        "check ray status there; a cluster with token authentication needs RAY_AUTH_MODE=token",
    )


def connection_lost(what: str) -> FleetUnreachableError:
    """Return the error for a cluster that was joined and is gone."""
    return FleetUnreachableError(
        f"the connection to {what} is lost; results and measurements so far are stored",
        "restart the cluster, then: p3-advisor fleet --resume",
    )
