"""Recorded spaces: complete spaces whose programs were all measured, and what searches find there."""

from schedlang.measurement.recorded.recording import RecordedProgram, RecordedSpace, Ways
from schedlang.measurement.recorded.simulated import SimulatedMeasurer

__all__ = ["RecordedProgram", "RecordedSpace", "SimulatedMeasurer", "Ways"]
