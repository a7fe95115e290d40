"""Plausible records, runs and details, for tests of what reads and writes databases."""

from __future__ import annotations

import random
from typing import Any

from schedlang.database import FinalsEntry, Record, Rejections, Run, RunDetails, TrialDetails
from schedlang.measurement import Status
from schedlang.measurement.clock import Phase


def make_record(**changes: Any) -> Record:
    """Make a plausible record with some fields changed; a failure has no samples."""
    fields: dict[str, Any] = {
        "workload_key": "w",
        "workload_name": "GMM",
        "target_key": "t",
        "toolchain_key": "c",
        "trace_json": "{}",
        "status": Status.OK,
        "samples": (3e-6, 1e-6, 2e-6),
        "message": "",
        "verified": True,
        "search": "random",
        "seed": 0,
        "created": 1.7e9,
    }
    if changes.get("status", Status.OK) is not Status.OK:
        fields |= {"samples": (), "verified": False, "message": "it failed"}
    return Record(**(fields | changes))


def make_entry(record: Record, **changes: Any) -> FinalsEntry:
    """Make a plausible entry of a stored record that won finals, with some fields changed."""
    fields: dict[str, Any] = {
        "record_id": record.id,
        "held": 1.7e9,
        "place": 0,
        "status": Status.OK,
        "samples": (1e-6, 2e-6),
    }
    return FinalsEntry(**(fields | changes))


def noise(length: int) -> str:
    """Return a text that hardly compresses; the same at every call."""
    return random.Random(length).randbytes(length).hex()[:length]


def make_run(**changes: Any) -> Run:
    """Make a plausible run that has just begun, with some fields changed."""
    fields: dict[str, Any] = {
        "identity": "i",
        "workload_key": "w",
        "target_key": "t",
        "toolchain_key": "c",
        "search": "random",
        "seed": 0,
        "created": 1.7e9,
    }
    return Run(**(fields | changes))


def make_details(*record_ids: int, begin: float = 1.7e9) -> RunDetails:
    """Make plausible details of a run: of the trials of some records, a phase and a rejection."""
    return RunDetails(
        tuple(
            TrialDetails(
                number,
                place % 2,
                (Phase("build", begin, begin + 0.1), Phase("run", begin + 0.1, begin + 0.7, 3)),
            )
            for place, number in enumerate(record_ids)
        ),
        (Phase("search", begin, begin + 1 / 3),),
        (Rejections("tile", "split", "C", "instruction", 7, "split(...): ü"),),
    )
