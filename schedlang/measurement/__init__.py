"""Candidates, measurements, the measurer protocol, and finals.

Nothing here imports TVM: who reads a database must not wait for it.
"""

from typing import TYPE_CHECKING

from schedlang.measurement.adapter import SupportsMeasure, as_measurer
from schedlang.measurement.disturbance import CoreUse, Disturbance, RunDisturbance
from schedlang.measurement.latency import describe_latency, describe_speedup
from schedlang.measurement.measurement import Candidate, Measurement, Status
from schedlang.measurement.measurer import Measurer
from schedlang.measurement.phase import Phase

if TYPE_CHECKING:
    from schedlang.lab import RecordedSpace, SimulatedMeasurer
else:

    def __getattr__(name: str) -> object:
        """Return what needs TVM, and keep it."""
        if name not in ("RecordedSpace", "SimulatedMeasurer"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from schedlang import lab

        value = globals()[name] = getattr(lab, name)
        return value


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
