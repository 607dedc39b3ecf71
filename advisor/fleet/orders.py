"""What the user asks of a fleet: models and kinds of devices, read and checked. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from advisor.domain.fleet import Pool
from advisor.errors import FleetOrderError

EXAMPLE = 'write it like --on "gpu=H200,count=2,price=3.50" or --on cpu'


def parse_models(text: str, default: str) -> tuple[str, ...]:
    """Return the models, each once, in the order given."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    return tuple(dict.fromkeys(names)) or (default,)


def parse_pool(text: str) -> Pool:
    """Read one `--on`; raise `FleetOrderError`."""
    fields = dict(_pair(part) for part in text.split(","))
    kind = fields.pop("gpu", "") or fields.pop("cpu", "")
    count, price = fields.pop("count", ""), fields.pop("price", "")
    if not kind or fields:
        what = (
            f"{text!r} names no device"
            if not kind
            else f"{text!r} has {', '.join(sorted(fields))}, which is unknown"
        )
        raise FleetOrderError(what, EXAMPLE)
    try:
        pool = Pool(
            kind=kind,
            count=int(count) if count else None,
            price_per_hour=float(price) if price else None,
        )
    except ValueError as problem:
        raise FleetOrderError(f"{text!r}: {problem}", EXAMPLE) from problem
    if (pool.count is not None and pool.count < 1) or not 0 <= (pool.price_per_hour or 0) < float(
        "inf"
    ):
        raise FleetOrderError(f"{text!r} has a count or price that cannot be", EXAMPLE)
    return pool


def _pair(part: str) -> tuple[str, str]:
    name, _, value = part.strip().partition("=")
    return (name, value.strip()) if name != "cpu" else ("cpu", "cpu")


def choose_pools(asked: Sequence[Pool], there: Mapping[str, int]) -> tuple[Pool, ...]:
    """Return the pools with the devices there are; without a wish every kind of accelerator, else the CPUs. Raise `FleetOrderError`."""
    if not asked:
        asked = [Pool(kind=kind) for kind in sorted(there) if kind != "cpu"] or [Pool(kind="cpu")]
    kinds = [pool.kind for pool in asked]
    if len(set(kinds)) < len(kinds):
        raise FleetOrderError(
            "one kind of device is named twice", "give each kind one --on, with the count of both"
        )
    for pool in asked:
        have = there.get(pool.kind, 0)
        if have < (pool.count or 1):
            listed = (
                ", ".join(f"{count} x {kind}" for kind, count in sorted(there.items()))
                or "no device"
            )
            raise FleetOrderError(
                f"the fleet has {have} x {pool.kind}, asked for {pool.count or 1}",
                f"it has {listed}",
            )
    return tuple(
        Pool(
            kind=pool.kind, count=pool.count or there[pool.kind], price_per_hour=pool.price_per_hour
        )
        for pool in asked
    )


def limit(pools: Sequence[Pool], there: Mapping[str, int]) -> list[Pool]:
    """Return the pools with no more devices than there are left of each kind, at least one."""
    return [
        msgspec.structs.replace(pool, count=max(min(pool.count or 1, there.get(pool.kind, 0)), 1))
        for pool in pools
    ]


def price(pools: Sequence[Pool], prices: Mapping[str, float]) -> tuple[Pool, ...]:
    """Return the pools with the prices per hour of their kinds, where the user has named none with --on."""
    return tuple(
        pool
        if pool.price_per_hour is not None
        else msgspec.structs.replace(pool, price_per_hour=prices.get(pool.kind))
        for pool in pools
    )
