"""Recorded spaces: all programs were measured, so searches can be judged without a machine."""

from schedlang.measurement.recorded.contents import RecordedProgram, Ways
from schedlang.measurement.recorded.kernel_tuner import to_kernel_tuner, to_t1, to_t4
from schedlang.measurement.recorded.recording import RecordedSpace
from schedlang.measurement.recorded.simulated import SimulatedMeasurer

__all__ = [
    "RecordedProgram",
    "RecordedSpace",
    "SimulatedMeasurer",
    "Ways",
    "to_kernel_tuner",
    "to_t1",
    "to_t4",
]
