"""Recorded spaces by the name under which users import them; they are in ``schedlang.lab``."""

from schedlang.lab import (
    RecordedProgram,
    RecordedSpace,
    SimulatedMeasurer,
    Ways,
    to_kernel_tuner,
    to_t1,
    to_t4,
)

__all__ = [
    "RecordedProgram",
    "RecordedSpace",
    "SimulatedMeasurer",
    "Ways",
    "to_kernel_tuner",
    "to_t1",
    "to_t4",
]
