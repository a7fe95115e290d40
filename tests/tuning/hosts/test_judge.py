"""Hosts that are not as fast as the others."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from schedlang.errors import HostWarning
from schedlang.testing.executors import check, tuned
from schedlang.tuning.hosts import Hosts
from schedlang.tuning.hosts.host_speed import Judge


def seen(judge: Judge, name: str, *rates: float) -> None:
    for rate in rates:
        judge.see(name, rate)


def group() -> Judge:
    judge = Judge()
    for number, rate in enumerate((100e9, 101e9, 99e9, 100.5e9)):
        judge.see(f"good/{number}", rate)
    return judge


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_one_that_is_off_again_and_again_is_set_apart(factor: float) -> None:
    judge = group()
    seen(judge, "odd", factor * 100e9, factor * 100.1e9)
    assert not judge.apart, "it may be disturbed for a moment"
    with pytest.warns(HostWarning, match="host odd is set apart: its rate is"):
        seen(judge, "odd", factor * 100.2e9)
    assert list(judge.apart) == ["odd"]
    assert judge.number("odd") == 5


def test_a_reading_counts_once() -> None:
    judge = group()
    seen(judge, "odd", *[50e9] * 20)
    assert not judge.apart


def test_one_that_is_as_the_others_again_comes_back() -> None:
    judge = group()
    with pytest.warns(HostWarning):
        seen(judge, "odd", 50e9, 50.1e9, 50.2e9)
    judge.refuse("odd", "it is set apart", 99.5e9)
    assert not judge.apart and not judge.refused


def test_hosts_that_differ_among_themselves_judge_nobody() -> None:
    judge = Judge()
    for number, rate in enumerate((60e9, 100e9, 140e9, 80e9)):
        seen(judge, f"host/{number}", rate, rate + 1, rate + 2, rate + 3)
    seen(judge, "odd", 50e9, 50.1e9, 50.2e9)
    assert not judge.apart


def test_few_hosts_judge_nobody() -> None:
    judge = Judge()
    seen(judge, "first", 100e9, 101e9, 102e9)
    seen(judge, "second", 100e9, 101e9, 102e9)
    seen(judge, "odd", 10e9, 10.1e9, 10.2e9)
    assert not judge.apart


@pytest.mark.slow
def test_where_nobody_else_is_left_one_is_not_set_apart() -> None:
    """The others have died: slow hosts are better than none."""
    with ThreadPoolExecutor(1) as pool:
        hosts = Hosts(pool)
        name = _name_of(hosts)
        for number in range(4):
            hosts.judge.see(f"gone/{number}", 1e18 + number)
        with pytest.warns(HostWarning):
            seen(hosts.judge, name, 1.0, 2.0, 3.0)
        with warnings.catch_warnings():
            warnings.simplefilter("error", HostWarning)
            check(*tuned(hosts))
        assert not hosts.judge.apart


def _name_of(hosts: Hosts) -> str:
    """Return the name of the only host, which tunes something for it."""
    tuned(hosts)
    [name] = hosts.judge.names
    return name
