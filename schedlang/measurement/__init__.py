"""Candidates, measurements, their protocol, and finals."""

from schedlang.measurement.measurement import Candidate, Measurement, Measurer, Status

__all__ = [
    "Candidate",
    "Measurement",
    "Measurer",
    "Status",
]
