"""Candidates, measurements, their protocol, and finals."""

from schedlang.measurement.latency import describe_latency
from schedlang.measurement.measurement import Candidate, Measurement, Measurer, Status

__all__ = [
    "Candidate",
    "Measurement",
    "Measurer",
    "Status",
    "describe_latency",
]
