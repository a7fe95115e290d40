"""Recorded spaces by the name under which users import them; they are in ``schedlang.lab``.

Scores of searches are ``schedlang.measurement.recorded.score``.
"""

import sys

from schedlang.lab import (
    RecordedProgram,
    RecordedSpace,
    SimulatedMeasurer,
    Ways,
    simulation as score,
    to_kernel_tuner,
    to_t1,
    to_t4,
)

sys.modules[f"{__name__}.score"] = score

__all__ = [
    "RecordedProgram",
    "RecordedSpace",
    "SimulatedMeasurer",
    "Ways",
    "score",
    "to_kernel_tuner",
    "to_t1",
    "to_t4",
]
