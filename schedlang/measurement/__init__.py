"""Candidates, measurements, the measurer protocol, and finals.

Nothing here imports TVM: who reads a database must not wait for it.
"""

from typing import TYPE_CHECKING

from schedlang.measurement.clock import Phase
from schedlang.measurement.disturbance import CoreUse, Disturbance, RunDisturbance
from schedlang.measurement.measurement import (
    Candidate,
    Measurement,
    Status,
)
from schedlang.measurement.measurer import Measurer, SupportsMeasure, as_measurer
from schedlang.printed import describe_latency, describe_speedup

if TYPE_CHECKING:
    from schedlang.lab import RecordedSpace, SimulatedMeasurer
else:
    from schedlang._lazy import attach

    __getattr__, __dir__ = attach(__name__)

__all__ = [
    "Candidate",
    "CoreUse",
    "Disturbance",
    "Measurement",
    "Measurer",
    "Phase",
    "RecordedSpace",
    "RunDisturbance",
    "SimulatedMeasurer",
    "Status",
    "SupportsMeasure",
    "as_measurer",
    "describe_latency",
    "describe_speedup",
]
