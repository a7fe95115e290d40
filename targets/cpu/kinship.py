"""How near the schedules of another CPU are to this one."""

from __future__ import annotations

import math

from schedlang.targets.cpu import features
from schedlang.targets.cpu.machine import CPUMachine

_SAME, _NARROWER, _WIDER = range(3)


def distance(machine: CPUMachine, other: CPUMachine) -> tuple[float, ...] | None:
    """Return how unlike ``machine`` another CPU is; None for one of another architecture.

    The width of the vectors counts first, as tiles are multiples of it: the same width, then
    narrower vectors, then wider ones, the nearest width first. Then the instruction set, by the
    number of features that only one of both has, the number of cores, and the model.
    """
    if machine.architecture != other.architecture:
        return None
    width = math.log2(other.vector_bits / machine.vector_bits)
    differing = (machine.features ^ other.features) & features.KNOWN
    return (
        _SAME if width == 0 else _NARROWER if width < 0 else _WIDER,
        abs(width),
        len(differing),
        abs(math.log2(other.cores / machine.cores)),
        machine.machine != other.machine,
    )
