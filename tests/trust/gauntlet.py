"""Measures attacks as a tuning run does, finals included, and says which were accepted."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from schedlang.measurement import Candidate, Measurement
from schedlang.targets import LocalCPU, Target, TimingPolicy
from tests.trust.attack import Attack, Subject
from tests.trust.subjects.processes import PROCESSES

# How long programs take is of no interest here.
QUICK = TimingPolicy(min_sample_seconds=2e-5, min_repeats=2, max_repeats=3, min_seconds=0.0)
_FINALISTS = 5
_RIGHT_FOLLOWERS = 2


@dataclass(frozen=True)
class Verdict:
    """What came of one program.

    Attributes
    ----------
    subject, attack: its names.
    right: whether it had to be accepted.
    accepted: whether it could have won a tuning run.
    by: the status that refused it, and where; empty if it was accepted.
    expected: that status is one of those that the attack names.
    message: of the measurer.
    """

    subject: str
    attack: str
    right: bool
    accepted: bool
    by: str = ""
    expected: bool = True
    message: str = ""

    @property
    def failed(self) -> bool:
        """Whether the measurer was wrong about it."""
        return self.accepted != self.right


def measurer(seed: int = 0, workers: int = 1) -> LocalCPU:
    """Return a measurer that verifies everything; it is bound to one subject after the other."""
    return LocalCPU(
        PROCESSES.workload, workers=workers, run_timeout=5.0, verify="all", timing=QUICK, seed=seed
    )


def judge(bench: LocalCPU, subject: Subject, chosen: Sequence[Attack]) -> list[Verdict]:
    """Measure some programs of a subject; one that passes is measured again as a finalist.

    A program that needs more threads than there are is not measured, and has no verdict.
    """
    bench.bind(subject.workload)
    cores = Target("cpu").cores
    chosen = [attack for attack in chosen if attack.threads <= cores]
    if subject.followers:
        found = (_with_followers(bench, subject, attack) for attack in chosen)
        return [verdict for verdicts in found for verdict in verdicts]
    candidates = [Candidate(n, subject.program(attack)) for n, attack in enumerate(chosen)]
    found = {measurement.id: measurement for measurement in bench.measure(candidates)}
    entered = [
        candidate
        for candidate, attack in zip(candidates, chosen, strict=True)
        if _accepted(found[candidate.id]) and (attack.right or attack.finals)
    ]
    finals: dict[int, Measurement] = {}
    for start in range(0, len(entered), _FINALISTS):
        some = entered[start : start + _FINALISTS]
        finals |= {measurement.id: measurement for measurement in bench.remeasure(some)}
    return [_verdict(subject, attack, found[n], finals.get(n)) for n, attack in enumerate(chosen)]


def after(attack: Attack) -> str:
    """Return the name under which the right programs behind an attack have their verdict."""
    return f"right programs after: {attack.name}"


def _accepted(measurement: Measurement) -> bool:
    return measurement.ok and measurement.verified


def _verdict(
    subject: Subject, attack: Attack, first: Measurement, final: Measurement | None
) -> Verdict:
    last = final or first
    if _accepted(last):
        return Verdict(subject.name, attack.name, attack.right, accepted=True)
    by = f"{last.status} in the finals" if final else str(last.status)
    return _refusal(subject, attack, last, by)


def _refusal(subject: Subject, attack: Attack, last: Measurement, by: str) -> Verdict:
    return Verdict(
        subject.name,
        attack.name,
        attack.right,
        accepted=False,
        by=by,
        expected=last.status in attack.caught,
        message=last.message,
    )


def _with_followers(bench: LocalCPU, subject: Subject, attack: Attack) -> Iterator[Verdict]:
    """Measure an attack, wrong programs behind it that it might make right, and right ones."""
    behind = subject.behind or subject
    wrong_ones = [behind.program(follower) for follower in subject.followers]
    programs = [subject.program(attack), *wrong_ones, *[behind.workload.mod] * _RIGHT_FOLLOWERS]
    candidates = deque(Candidate(n, program) for n, program in enumerate(programs))
    bench.bind(subject.workload)
    measured: list[Measurement] = []
    if behind is not subject:
        measured += bench.measure([candidates.popleft()])
        bench.bind(behind.workload)
    measured += bench.measure(candidates)
    first, *followers = sorted(measured, key=lambda measurement: measurement.id)
    passed = [one for one in followers[: len(wrong_ones)] if _accepted(one)]
    if passed or (_accepted(first) and first.status not in attack.caught):
        yield Verdict(subject.name, attack.name, right=False, accepted=True)
    else:
        yield _refusal(subject, attack, first, str(first.status))
    refused = [one for one in followers[len(wrong_ones) :] if not _accepted(one)]
    yield Verdict(
        subject.name,
        after(attack),
        right=True,
        accepted=not refused,
        by=str(refused[0].status) if refused else "",
        message=refused[0].message if refused else "",
    )
