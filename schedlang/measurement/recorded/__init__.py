"""Recorded spaces: all programs were measured, so searches can be judged without a machine."""

from schedlang.measurement.recorded.recording import RecordedProgram, RecordedSpace, Ways
from schedlang.measurement.recorded.simulated import SimulatedMeasurer

__all__ = ["RecordedProgram", "RecordedSpace", "SimulatedMeasurer", "Ways"]
