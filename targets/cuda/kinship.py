"""How near the schedules of another GPU are to this one."""

from __future__ import annotations

import math

from schedlang.targets.cuda.machine import CUDAMachine


def distance(machine: CUDAMachine, other: CUDAMachine) -> tuple[float, ...] | None:
    """Return how unlike ``machine`` another GPU is; None for one of a newer architecture.

    Schedules for a newer one may need what this one lacks. The nearest compute capability comes
    first. Of one capability, schedules for what only some of its GPUs run, such as ``"sm_90a"``,
    come after the others, unless this target has all of it too. Then the number of multiprocessors
    counts, and the model.
    """
    if other.compute_capability > machine.compute_capability:
        return None
    return (
        _number(machine) - _number(other),
        _has_own_features(other) and machine.arch != other.arch,
        abs(math.log2(other.sms / machine.sms)),
        machine.model != other.model,
    )


def _number(machine: CUDAMachine) -> int:
    major, minor = machine.compute_capability
    return 10 * major + minor


def _has_own_features(machine: CUDAMachine) -> bool:
    return machine.arch[-1].isalpha()
