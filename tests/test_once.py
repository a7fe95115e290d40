"""``LastUsed``: values are made once while their keys are among the last ones."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from schedlang.once import LastUsed


def test_the_value_that_was_asked_for_longest_ago_goes() -> None:
    made: list[str] = []

    def ask(key: str) -> str:
        def make() -> str:
            made.append(key)
            return key.upper()

        return kept.get(key, make)

    kept = LastUsed[str](2)
    assert [ask(key) for key in "abacab"] == list("ABACAB")
    assert made == ["a", "b", "c", "b"]


def test_a_value_that_does_not_fit_is_made_anew() -> None:
    kept = LastUsed[int](2)
    assert kept.get("a", lambda: 1) == 1
    assert kept.get("a", lambda: 2, lambda value: value > 0) == 1
    assert kept.get("a", lambda: 3, lambda value: value > 1) == 3


def test_what_fails_is_not_kept() -> None:
    kept = LastUsed[float](2)
    with pytest.raises(ZeroDivisionError):
        kept.get("a", lambda: 1 / 0)
    assert kept.get("a", lambda: 1.0) == 1.0


def test_threads_that_drop_each_others_keys_get_their_values() -> None:
    kept, usual = LastUsed[int](1), sys.getswitchinterval()

    def ask(key: int) -> bool:
        return all(kept.get(key, lambda: key) == key for _ in range(5000))

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            assert all(threads.map(ask, range(1, 5)))
    finally:
        sys.setswitchinterval(usual)
