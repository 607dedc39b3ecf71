"""What may be asked of a fleet."""

from __future__ import annotations

import pytest

from advisor.domain.fleet import Pool
from advisor.errors import FleetOrderError
from advisor.fleet import orders

THERE = {"H200": 4, "L40S": 2, "cpu": 3}


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
def test_a_pool_is_read(text: str, pool: Pool) -> None:
    assert orders.parse_pool(text) == pool


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
def test_what_is_no_pool_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(FleetOrderError) as refused:
        orders.parse_pool(text)
    assert "--on" in refused.value.next_step


def test_models_are_named_once_and_default_to_that_of_the_question() -> None:
    assert orders.parse_models("a, b,,a", "demo") == ("a", "b")
    assert orders.parse_models("", "demo") == ("demo",)


def test_without_a_wish_every_kind_of_accelerator_is_asked_and_else_the_cpus() -> None:
    assert [(pool.kind, pool.count) for pool in orders.choose_pools([], THERE)] == [
        ("H200", 4),
        ("L40S", 2),
    ]
    assert [(pool.kind, pool.count) for pool in orders.choose_pools([], {"cpu": 3})] == [("cpu", 3)]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ([Pool(kind="A100")], "the fleet has 0 x A100"),
        ([Pool(kind="L40S", count=3)], "the fleet has 2 x L40S, asked for 3"),
        ([Pool(kind="cpu"), Pool(kind="cpu", count=1)], "named twice"),
    ],
)
def test_devices_that_are_not_there_are_refused_before_anything_starts(
    asked: list[Pool], words: str
) -> None:
    with pytest.raises(FleetOrderError, match=words):
        orders.choose_pools(asked, THERE)


def test_a_price_of_the_settings_holds_where_none_is_named() -> None:
    pools = (Pool(kind="H200"), Pool(kind="L40S", price_per_hour=1.0), Pool(kind="cpu"))
    assert [pool.price_per_hour for pool in orders.price(pools, {"H200": 3.5, "L40S": 9.0})] == [
        3.5,
        1.0,
        None,
    ]
