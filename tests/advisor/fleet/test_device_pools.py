"""Parsing of `--models` and `--on`, and the choice of devices."""

from __future__ import annotations

import pytest

from advisor.domain.answer import Pool
from advisor.errors import FleetRequestError
from advisor.fleet import device_pools

DEVICES = {"H200": 4, "L40S": 2, "cpu": 3}


@pytest.mark.parametrize(
    ("text", "pool"),
    [
        ("gpu=H200", Pool(kind="H200")),
        ("gpu=H200,count=2", Pool(kind="H200", count=2)),
        (" gpu = L40S , price = 1.20 ".replace(" = ", "="), Pool(kind="L40S", price_per_hour=1.2)),
        ("cpu", Pool(kind="cpu")),
        ("cpu,count=2,price=0", Pool(kind="cpu", count=2, price_per_hour=0.0)),
    ],
)
def test_a_pool_is_parsed(text: str, pool: Pool) -> None:
    assert device_pools.parse_pool(text) == pool


@pytest.mark.parametrize(
    "text",
    [
        "",
        "count=2",
        "gpu=",
        "gpu=H200,colour=red",
        "gpu=H200,count=0",
        "gpu=H200,count=two",
        "cpu,price=-1",
        "cpu,price=nan",
    ],
)
def test_an_invalid_pool_is_rejected_with_an_example(text: str) -> None:
    with pytest.raises(FleetRequestError) as refused:
        device_pools.parse_pool(text)
    assert "--on" in refused.value.next_step


def test_duplicate_models_are_dropped_and_the_default_is_the_model_option() -> None:
    assert device_pools.parse_models("a, b,,a", "demo") == ("a", "b")
    assert device_pools.parse_models("", "demo") == ("demo",)


def test_the_default_is_every_kind_of_accelerator_or_the_cpus() -> None:
    assert [(pool.kind, pool.count) for pool in device_pools.choose_pools([], DEVICES)] == [
        ("H200", 4),
        ("L40S", 2),
    ]
    assert [(pool.kind, pool.count) for pool in device_pools.choose_pools([], {"cpu": 3})] == [
        ("cpu", 3)
    ]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ([Pool(kind="A100")], "the fleet has 0 x A100"),
        ([Pool(kind="L40S", count=3)], "the fleet has 2 x L40S, 3 requested"),
        ([Pool(kind="cpu"), Pool(kind="cpu", count=1)], "name the same kind"),
    ],
)
def test_a_request_for_missing_devices_is_rejected(asked: list[Pool], words: str) -> None:
    with pytest.raises(FleetRequestError, match=words):
        device_pools.choose_pools(asked, DEVICES)


def test_a_price_on_the_command_line_overrides_the_settings() -> None:
    pools = (Pool(kind="H200"), Pool(kind="L40S", price_per_hour=1.0), Pool(kind="cpu"))
    assert [
        pool.price_per_hour for pool in device_pools.add_prices(pools, {"H200": 3.5, "L40S": 9.0})
    ] == [
        3.5,
        1.0,
        None,
    ]


def test_pools_are_limited_to_the_devices_that_are_left() -> None:
    pools = [Pool(kind="H200", count=4), Pool(kind="L40S", count=2)]
    limited = device_pools.choose_pools(pools, {"H200": 1, "L40S": 2}, at_most=True)
    assert [(pool.kind, pool.count) for pool in limited] == [("H200", 1), ("L40S", 2)]
    with pytest.raises(FleetRequestError, match="0 x H200"):
        device_pools.choose_pools(pools, {"L40S": 2}, at_most=True)
