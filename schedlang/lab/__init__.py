"""Instruments: recorded spaces, on which searches are judged, and an emulator of NVIDIA GPUs.

All programs of a recorded space were measured, so a search needs no machine. ``lab.emulator`` runs
generated CUDA C++ on the CPU.
"""

from schedlang.lab.kernel_tuner import to_kernel_tuner, to_t1, to_t4
from schedlang.lab.recorded_space import RecordedSpace
from schedlang.lab.recording import RecordedProgram, Ways
from schedlang.lab.simulation import SimulatedMeasurer

__all__ = [
    "RecordedProgram",
    "RecordedSpace",
    "SimulatedMeasurer",
    "Ways",
    "to_kernel_tuner",
    "to_t1",
    "to_t4",
]
