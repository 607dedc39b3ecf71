from __future__ import annotations

from advisor.statistics.missed_curve import LoadBlock, count_groups, group_size


def test_misses_with_few_others_between_them_are_one_group() -> None:
    assert count_groups([]) == 0
    assert count_groups([False] * 3) == 0
    assert count_groups([True, *[False] * 5, True]) == 1
    assert count_groups([True, *[False] * 6, True]) == 2
    assert group_size([LoadBlock(4.0, 50, 60, 2), LoadBlock(6.0, 10, 60, 1)]) == 5
    assert group_size([LoadBlock(4.0, 60, 60, 0)]) == 1
