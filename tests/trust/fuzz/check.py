"""Checks schedules of a random program twice: with numpy, and with schedlang's own verification."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from tvm.ir import IRModule

import schedlang as sl
from schedlang.measurement import Candidate, Measurement, Status
from schedlang.targets import LocalCPU, build_callable
from schedlang.targets.measure.inputs import poison
from schedlang.tvm.program import structural_key
from tests.trust.fuzz.numbers import Array, wide
from tests.trust.fuzz.problem import Problem
from tests.trust.fuzz.problems import problem

# It does not say that the program is wrong.
_TOO_SLOW = (Status.BUILD_TIMEOUT,)
_RAN = (Status.OK, Status.WRONG_RESULT, Status.SUSPICIOUS_TIME)


@dataclass(frozen=True)
class Finding:
    """Something that should not be.

    Attributes
    ----------
    seed, number: of the program.
    schedule: seed of the schedule; None for the unscheduled program.
    kind: ``accepted wrong``, ``refused wrong``, ``refused right`` or ``not made``.
    text: the program in words.
    reason: what numpy, the measurer or the space says.
    """

    seed: int
    number: int
    schedule: int | None
    kind: str
    text: str
    reason: str

    def __str__(self) -> str:
        which = "unscheduled" if self.schedule is None else f"schedule {self.schedule}"
        return (
            f"{self.kind}: seed {self.seed}, program {self.number}, {which} ({self.text}): "
            f"{self.reason}"
        )


@dataclass(frozen=True)
class Checked:
    """What came of one program: the number of different schedules, and what is wrong with them."""

    candidates: int
    findings: tuple[Finding, ...]


def check(bench: LocalCPU, seed: int, number: int, samples: int) -> Checked:
    """Check the different schedules among ``samples`` draws from the default space."""
    drawn = problem(seed, number)
    space = sl.default_space(bench.target)
    findings: list[Finding] = []

    def note(schedule: int | None, kind: str, reason: str) -> None:
        findings.append(Finding(seed, number, schedule, kind, drawn.text, reason))

    programs: dict[int, IRModule] = {}
    known = set()
    for schedule in range(samples):
        try:
            mod = space.sample(drawn.workload, seed=schedule).mod
        except sl.SchedlangError as error:
            note(schedule, "not made", f"{type(error).__name__}: {error}")
            continue
        key = structural_key(mod)
        if key not in known:
            known.add(key)
            programs[schedule] = mod
    reason = disagreement(drawn, drawn.workload.mod, bench, number)
    if reason:
        note(None, "refused wrong", reason)
    bench.bind(drawn.workload)
    try:
        found = {one.id: one for one in _measured(bench, programs)}
    except sl.SchedlangError as error:
        note(None, "refused right", f"{type(error).__name__}: {error}")
        return Checked(len(programs), tuple(findings))
    for schedule, mod in programs.items():
        measured = found[schedule]
        if measured.status in _TOO_SLOW:
            continue
        accepted = measured.ok and measured.verified
        said = f"{measured.status}: {measured.message}"
        if measured.status not in _RAN:
            note(schedule, "refused wrong", said)
            continue
        reason = disagreement(drawn, mod, bench, number)
        if reason:
            note(schedule, "accepted wrong" if accepted else "refused wrong", reason)
        elif not accepted:
            note(schedule, "refused right", said)
    return Checked(len(programs), tuple(findings))


def _measured(bench: LocalCPU, programs: dict[int, IRModule]) -> Iterator[Measurement]:
    return bench.measure([Candidate(schedule, mod) for schedule, mod in programs.items()])


def disagreement(drawn: Problem, mod: IRModule, bench: LocalCPU, seed: int) -> str:
    """Say where a program's results are not numpy's; empty if they are."""
    args = drawn.workload.args
    read = drawn.draw(np.random.default_rng(seed))
    left = iter(read)
    arrays = [
        poison(arg.shape, arg.dtype) if arg.role == "output" else next(left).copy() for arg in args
    ]
    build_callable(mod, bench.target)(*arrays)
    written = [array for array, arg in zip(arrays, args, strict=True) if arg.role != "input"]
    for position, (got, (want, error)) in enumerate(
        zip(written, drawn.compute(*read), strict=True)
    ):
        if reason := _difference(got, want, error):
            return f"output {position} ({want.dtype}): {reason}"
    return ""


def _difference(got: Array, want: Array, error: Array | None) -> str:
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape}, and numpy gives {want.dtype}{want.shape}"
    if error is None:
        wrong = got != want
    else:
        with np.errstate(invalid="ignore"):
            wrong = ~(abs(wide(got) - wide(want)) <= error)  # NaN is wrong, too
    if not wrong.any():
        return ""
    place = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    where = [int(index) for index in place]
    return (
        f"{np.count_nonzero(wrong)} of {wrong.size} elements are not numpy's; at {where} "
        f"{got[place]} for {want[place]}"
    )
