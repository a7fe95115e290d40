"""A program that harms its process gains nothing by it, and costs no other program anything."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from schedlang.targets import LocalCPU
from tests.processes import marked
from tests.trust.attack import Attack, Subject
from tests.trust.benchmark_only import BENCHMARK_ONLY
from tests.trust.catalogue import attacks
from tests.trust.gauntlet import Verdict, after, judge, measurer
from tests.trust.subjects.processes import PROCESSES

# In the environment of every worker of this file, and of whatever a program starts there.
MARK = ("SCHEDLANG_TRUST_SUITE", str(os.getpid()))


@dataclass
class Bench:
    """A measurer, and its verdicts by name."""

    measurer: LocalCPU
    known: dict[str, Verdict]

    def verdict(self, subject: Subject, attack: Attack, name: str) -> Verdict:
        if name not in self.known:
            found = judge(self.measurer, subject, [attack])
            self.known |= {verdict.attack: verdict for verdict in found}
        return self.known[name]


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(*MARK)
        with measurer() as found:
            yield Bench(found, {})


CASES = [
    (subject, attack)
    for subject, attack in attacks(right=False)
    if subject.followers and attack.name not in BENCHMARK_ONLY
]
each_attack = pytest.mark.parametrize(
    ("subject", "attack"), CASES, ids=[attack.name for _, attack in CASES]
)


@each_attack
def test_neither_it_nor_wrong_programs_behind_it_are_accepted(
    subject: Subject, attack: Attack, bench: Bench
) -> None:
    found = bench.verdict(subject, attack, attack.name)
    assert not found.accepted
    assert found.expected, f"{found.by}: {found.message}"


@each_attack
def test_right_programs_behind_it_are_accepted(
    subject: Subject, attack: Attack, bench: Bench
) -> None:
    found = bench.verdict(subject, attack, after(attack))
    assert found.accepted, f"{found.by}: {found.message}"


def test_no_process_is_left(bench: Bench, survivors: Callable[[set[int]], set[int]]) -> None:
    """Last in this file: it closes the measurer."""
    (daemon,) = (attack for _, attack in CASES if attack.name == "a daemon")
    bench.verdict(PROCESSES, daemon, daemon.name)
    alive = marked(*MARK)
    bench.measurer.close()
    assert len(alive) <= 2, "a process of a program has outlived its worker"  # which has a guard
    assert survivors(alive) == set()
