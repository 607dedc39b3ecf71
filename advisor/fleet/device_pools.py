"""`--models` and `--on`: the models and devices of a fleet's request."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from advisor.domain.answer import CPU, Pool
from advisor.errors import FleetRequestError

EXAMPLE = 'write it like --on "gpu=H200,count=2,price=3.50" or --on cpu'


def parse_models(text: str, default: str) -> tuple[str, ...]:
    """Return the models without duplicates, in the order given."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    return tuple(dict.fromkeys(names)) or (default,)


def parse_pool(text: str) -> Pool:
    """Parse the value of one `--on`; raise `FleetRequestError`."""
    fields = dict(_parse_field(part) for part in text.split(","))
    kind = fields.pop("gpu", "") or fields.pop(CPU, "")
    count, price = fields.pop("count", ""), fields.pop("price", "")
    if not kind:
        raise FleetRequestError(f"--on {text!r} names no device", EXAMPLE)
    if fields:
        raise FleetRequestError(f"--on {text!r}: unknown {', '.join(sorted(fields))}", EXAMPLE)
    try:
        pool = Pool(
            kind=kind,
            count=int(count) if count else None,
            price_per_hour=float(price) if price else None,
        )
    except ValueError as problem:
        raise FleetRequestError(f"--on {text!r}: {problem}", EXAMPLE) from problem
    if (pool.count is not None and pool.count < 1) or not 0 <= (
        pool.price_per_hour or 0
    ) < math.inf:
        raise FleetRequestError(f"--on {text!r}: the count or the price is out of range", EXAMPLE)
    return pool


def _parse_field(part: str) -> tuple[str, str]:
    name, _, value = part.strip().partition("=")
    return (name, value.strip()) if name != CPU else (CPU, CPU)


def choose_pools(
    requested: Sequence[Pool], devices: Mapping[str, int], *, at_most: bool = False
) -> tuple[Pool, ...]:
    """Return the requested pools with their counts; `at_most` takes the devices that are left.

    Without a request, choose every kind of accelerator, or the CPUs when there is none. Raise
    `FleetRequestError` when the fleet has fewer devices.
    """
    if not requested:
        requested = [Pool(kind=kind) for kind in sorted(devices) if kind != CPU]
        requested = requested or [Pool(kind=CPU)]
    kinds = [pool.kind for pool in requested]
    if len(set(kinds)) < len(kinds):
        raise FleetRequestError(
            "two --on name the same kind of device", "use one --on for each kind, with its count"
        )
    for pool in requested:
        available = devices.get(pool.kind, 0)
        if available < (1 if at_most else pool.count or 1):
            listed = ", ".join(f"{count} x {kind}" for kind, count in sorted(devices.items()))
            raise FleetRequestError(
                f"the fleet has {available} x {pool.kind}, {pool.count or 1} requested",
                f"choose from its devices: {listed or 'none'}",
            )
    return tuple(
        msgspec.structs.replace(
            pool, count=min(pool.count or devices[pool.kind], devices[pool.kind])
        )
        for pool in requested
    )


def add_prices(pools: Sequence[Pool], prices: Mapping[str, float]) -> tuple[Pool, ...]:
    """Return the pools with the price per hour of their kind, where `--on` gives none."""
    return tuple(
        pool
        if pool.price_per_hour is not None
        else msgspec.structs.replace(pool, price_per_hour=prices.get(pool.kind))
        for pool in pools
    )
