"""Replaying a trace: the interpreter that searches run most.

Each interpreter of a trace is a small function of its own: ``replay`` here (with its three policies
for decisions that no longer fit), ``sample`` and ``assess`` over it, ``flatten`` and the printers
in their files, recording in ``Schedule``, enumeration in ``Space``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from schedlang.distributions import Distribution
from schedlang.errors import InvalidTrace, SchedlangError, SpaceError
from schedlang.expressions import IntRV
from schedlang.instructions.handles import Handle, make_handle
from schedlang.instructions.instruction import Instruction
from schedlang.instructions.kinds import Sampling
from schedlang.tvm import errors
from schedlang.tvm.schedule import new_schedule
from schedlang.workloads.construct import as_workload
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from schedlang.language.schedule import Schedule
    from schedlang.language.trace import Trace

Misfit = Literal["reject", "resample", "repair"]
Decide = Callable[[Instruction, Distribution], Any]


@dataclass(frozen=True, slots=True)
class Change:
    """A decision that did not fit at replay, and what took its place."""

    site: str
    recorded: Any
    used: Any
    support: str

    def __str__(self) -> str:
        return f"{self.site}: {self.recorded} -> {self.used}, as it must be in {self.support}"


def replay(
    trace: Trace,
    workload: Workload | Any = None,
    *,
    misfit: Misfit = "reject",
    seed: int | None = None,
) -> Schedule:
    """Apply a trace's instructions with its decisions.

    Parameters
    ----------
    workload: what to apply it to; by default the workload it was recorded on.
    misfit: what to do with a decision outside its distribution's support: ``"reject"`` raises
        ``InvalidTrace``, ``"resample"`` draws another one with ``seed``, ``"repair"`` takes the
        nearest one.

    Returns the schedule; its trace holds the decisions and distributions as used, and its
    ``changes`` say which decisions are not the recorded ones. Raises ``InvalidTrace`` when an
    instruction does not apply.
    """
    changes: list[Change] = []
    rng = random.Random(seed)

    def decide(instruction: Instruction, distribution: Distribution) -> Any:
        recorded = instruction.decision
        if distribution.permits(recorded):
            return recorded
        if misfit == "reject":
            raise InvalidTrace(
                f"decision {recorded} of {instruction.site!r} is not in the support of "
                f"{distribution}",
                reason="decision",
                site=instruction.site,
                value=recorded,
                support=str(distribution),
            )
        used = distribution.sample(rng) if misfit == "resample" else distribution.repair(recorded)
        changes.append(Change(instruction.site, recorded, used, str(distribution)))
        return used

    if misfit not in ("reject", "resample", "repair"):
        raise SpaceError(f"misfit is 'reject', 'resample' or 'repair', not {misfit!r}")
    schedule = interpret(trace, workload, decide)
    schedule.changes = tuple(changes)
    return schedule


def resample(trace: Trace, workload: Workload | Any = None, *, seed: int | None = None) -> Schedule:
    """Another member of the trace's sketch: the same instructions with fresh decisions."""
    rng = random.Random(seed)
    return interpret(trace, workload, lambda _, distribution: distribution.sample(rng))


def assess(trace: Trace, workload: Workload | Any = None) -> float:
    """log P(tau) of a trace on a workload, with the distributions found there; -inf if it is
    invalid.

    ``Trace.log_prob`` is the cheap twin: it uses the distributions of the recording.
    """
    try:
        return replay(trace, workload).trace.log_prob()
    except InvalidTrace:
        return float("-inf")


def interpret(trace: Trace, workload: Workload | Any, decide: Decide) -> Schedule:
    """Apply a trace's instructions; ``decide(instruction, distribution)`` answers each draw.

    ``workload`` None takes the trace's own. InvalidTrace when an instruction does not apply.
    """
    from schedlang.language.schedule import Schedule

    if workload is None:
        workload = trace.workload
        if workload is None:
            raise SpaceError("this trace knows no workload: give one to replay it on")
    workload = as_workload(workload)
    raw = new_schedule(workload.mod, detail=False)
    values: list[Any] = []
    applied: list[Instruction] = []
    for instruction in trace.instructions:
        kind = instruction.kind
        try:
            if isinstance(kind, Sampling):
                instruction = _draw(kind, raw, instruction, values, decide)
            else:
                made = kind.run(raw, instruction.args, values)
                if len(made) != len(instruction.outputs):
                    raise ValueError(
                        f"it returned {len(instruction.outputs)} handles when recorded, "
                        f"now {len(made)}"
                    )
                values += made
        except InvalidTrace:
            raise
        except Exception as error:
            raise _invalid(instruction, error) from None
        applied.append(instruction)
    return Schedule.resume(workload, raw, values, applied)


def _draw(
    kind: Sampling, raw: Any, instruction: Instruction, values: list[Any], decide: Decide
) -> Instruction:
    distribution = kind.distribution(raw, instruction.args, values)
    decision = decide(instruction, distribution)
    result = kind.result(raw, instruction.args, values, distribution, decision)
    if len(result.values) != len(instruction.outputs):
        raise ValueError(
            f"it drew {len(instruction.outputs)} values when recorded, now {len(result.values)}"
        )
    values += result.values
    same = decision == instruction.decision and distribution == instruction.distribution
    if same and _show(instruction.outputs, result.values):
        return instruction
    outputs = tuple(
        make_handle("v", old.index, new) if isinstance(old, IntRV) else old
        for old, new in zip(instruction.outputs, result.values, strict=True)
    )
    return replace(instruction, outputs=outputs, decision=decision, distribution=distribution)


def _show(outputs: Sequence[Handle], values: Sequence[Any]) -> bool:
    """Whether the handles show these values: after an edit, or read from a file, they do not."""
    for handle, value in zip(outputs, values, strict=True):
        if isinstance(handle, IntRV) and handle.value != value:
            return False
    return True


def _invalid(instruction: Instruction, error: Exception) -> InvalidTrace:
    why = str(error) if isinstance(error, SchedlangError) else errors.reason_of(error)
    first = why.splitlines()[0] if why else type(error).__name__
    where = f" (module {instruction.module})" if instruction.module else ""
    return InvalidTrace(
        f"{instruction}{where}: {first}", reason="instruction", site=instruction.kind.name
    )


def reapply(raw: Any, instructions: Sequence[Instruction]) -> list[Any]:
    """Apply recorded instructions with their decisions to a fresh TVM schedule; its values."""
    values: list[Any] = []
    for instruction in instructions:
        kind = instruction.kind
        if isinstance(kind, Sampling):
            distribution = instruction.distribution
            assert distribution is not None
            result = kind.result(raw, instruction.args, values, distribution, instruction.decision)
            values += result.values
        else:
            values += kind.run(raw, instruction.args, values)
    return values
