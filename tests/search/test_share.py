"""Shares of programs of searches beside each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedlang.search.share import Share, decisions_key


@given(st.text(), st.integers(1, 20))
def test_each_program_belongs_to_one_search(key: str, count: int) -> None:
    assert sum(Share(number, count).owns(key) for number in range(count)) == 1


@given(st.lists(st.text(max_size=3), unique=True), st.integers(0, 3), st.integers(0, 9))
def test_its_own_come_first(ranked: list[str], number: int, most: int) -> None:
    share = Share(number, 4)
    found = share.own_first(ranked, str, most)
    own = [one for one in ranked if share.owns(one)]
    assert len(found) == min(most, len(ranked))
    assert found[: len(own)] == own[:most]
    others = found[len(own) :]
    assert others == [one for one in ranked if one in others]


def test_one_alone_has_all() -> None:
    assert Share().own_first([3, 1, 2], str, 2) == [3, 1]


@pytest.mark.parametrize("values", [{"b": 1, "a": (2, 3)}, {"a": (2, 3), "b": 1}])
def test_decisions_have_one_key_in_any_order(values: dict[str, object]) -> None:
    assert decisions_key(values) == "[('a', (2, 3)), ('b', 1)]"
