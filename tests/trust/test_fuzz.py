"""Random programs: what the default space makes of them is right, and the measurer knows it.

``benchmarks/fuzz.py`` does the same with many more, and repeats a failure here:
``--seed 20 --samples 12 --first NUMBER --programs 1``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from schedlang.targets import LocalCPU
from tests.trust.fuzz.check import Checked, check
from tests.trust.gauntlet import measurer

pytestmark = pytest.mark.slow

SEED = 20
PROGRAMS = 20
SAMPLES = 12
CANDIDATES = 150

checked: dict[int, Checked] = {}


@pytest.fixture(scope="module")
def bench() -> Iterator[LocalCPU]:
    with measurer() as found:
        yield found


@pytest.mark.parametrize("number", range(PROGRAMS))
def test_schedules_of_a_random_program(number: int, bench: LocalCPU) -> None:
    checked[number] = check(bench, SEED, number, SAMPLES)
    assert not checked[number].findings, "\n".join(map(str, checked[number].findings))


def test_enough_schedules_were_checked() -> None:
    if len(checked) == PROGRAMS:
        assert sum(one.candidates for one in checked.values()) >= CANDIDATES
