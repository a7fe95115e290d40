"""Values, results, records and runs as JSON has them; docs/cli.md lists the keys."""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Mapping, Sequence, Set as AbstractSet
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from schedlang.database import Run, Timing
    from schedlang.measurement.finals import Interval
    from schedlang.networks import NetworkResult, Summary
    from schedlang.shapes import ShapeSet
    from schedlang.shapes.ranges import RangeKernels
    from schedlang.tuning import FailureExplanation, TuneResult


def of_result(result: TuneResult) -> dict[str, Any]:
    """Return the result of ``tune``."""
    best: dict[str, Any] | None = None
    if result.has_best:
        found = result.best
        best = {
            "record": found.record.id,
            "latency": found.latency,
            "search_latency": found.record.latency,
            "interval": of_interval(found.confidence_interval),
            "verified": found.record.verified,
            "unscheduled": found.unscheduled,
            "p_value": found.p_value,
            "python": found.trace.as_python(),
        }
    return {
        "workload": result.workload.name,
        "workload_key": result.workload.key,
        "best": best,
        "speedup": result.speedup if result.has_best else None,
        "unscheduled_latency": result.reference_latency,
        "unscheduled_complete": result.reference_complete,
        "unscheduled_run": result.reference_run,
        "flops": result.workload.flops,
        "trials": len(result.records),
        "earlier": result.earlier,
        "rejected": dict(result.rejected),
        "seconds": result.seconds,
        "time_split": dict(result.time_split),
        "unreached": list(result.unreached),
        "at_fault": result.at_fault,
        "finished": result.finished,
        "interrupted": result.interrupted,
    }


def of_interval(interval: Interval | None) -> list[float] | None:
    """Return the ends of an interval."""
    return None if interval is None else [interval.low, interval.high]


def of_record(timing: Timing) -> dict[str, Any]:
    """Return a record without its trace; ``latency`` is that of ``latency_of``."""
    record, entry = timing.record, timing.entry
    return {
        "record": record.id,
        "workload": record.workload_name,
        "workload_key": record.workload_key,
        "target": record.target_key,
        "toolchain": record.toolchain_key,
        "status": str(record.status),
        "latency": timing.latency if record.ok else None,
        "latency_of": timing.source if record.ok else None,
        "samples": list(record.samples),
        "finals": None if entry is None else list(entry.samples),
        "verified": record.verified,
        "unscheduled": record.unscheduled,
        "search": record.search,
        "seed": record.seed,
        "run": record.run_id,
        "created": record.created,
        "message": record.message,
    }


def of_failure(said: FailureExplanation) -> dict[str, Any]:
    """Return what is known of why a record failed, besides the record."""
    return {
        "now": said.status,
        "now_message": said.message,
        "summary": said.summary,
        "instruction": said.instruction,
        "instructions": said.instructions,
        "suspects": said.suspects,
        "prefixes": said.prefixes,
        "first": said.first,
        "notes": said.notes,
    }


def of_run(run: Run) -> dict[str, Any]:
    """Return a run without its state."""
    return {
        "id": run.id,
        "workload_key": run.workload_key,
        "target": run.target_key,
        "search": run.search,
        "seed": run.seed,
        "created": run.created,
        "ended": bool(run.outcome),
        "notes": run.notes,
        "tags": list(run.tags),
    }


def of_network(result: NetworkResult) -> dict[str, Any]:
    """Return the result of ``tune_network``."""
    return {
        "networks": [
            {"name": network.name, "latency": latency, "unscheduled_latency": reference}
            for network, latency, reference in zip(
                result.networks, result.latencies, result.reference_latencies, strict=True
            )
        ],
        "target": result.target.key,
        "latency": result.latency,
        "complete": result.complete,
        "speedup": result.speedup,
        "trials": result.trials,
        "seconds": result.seconds,
        "time_split": dict(result.time_split),
        "tasks": [
            {
                "task": one.name,
                "calls": list(one.weights),
                "share": one.share,
                "latency": one.latency,
                "unscheduled_latency": one.reference_latency,
                "trials": one.trials,
                "finished": one.finished,
                "failed": one.failed,
            }
            for one in result.tasks
        ],
        "finished": result.finished,
        "interrupted": result.interrupted,
    }


def of_summary(summary: Summary) -> dict[str, Any]:
    """Return what a compiled network runs."""
    return {
        "latency": summary.latency,
        "complete": summary.complete,
        "call": summary.call,
        "tasks": [
            {
                "task": one.name,
                "calls": one.weight,
                "origin": one.origin,
                "latency": one.latency,
                "unscheduled_latency": one.unscheduled_latency,
                "record": one.record,
            }
            for one in summary
        ],
    }


def of_shapes(found: ShapeSet) -> dict[str, Any]:
    """Return the result of ``tune_shapes``; losses are parts of the time: 0.05 is 5% slower."""
    return {
        "template": found.template.name,
        "target": found.target.key,
        "points": [
            {
                "extents": one.extents,
                "weight": one.weight,
                "origin": one.origin,
                "latency": one.latency,
                "trials": one.trials,
            }
            for one in found.points
        ],
        "ranges": [_of_range(one) for one in found.ranges],
        "failed": dict(found.failed),
        "measured": found.measured,
        "seconds": found.seconds,
        "interrupted": found.interrupted,
    }


def _of_range(found: RangeKernels) -> dict[str, Any]:
    numbers = {id(kernel): number for number, kernel in enumerate(found.kernels)}
    return {
        "bounds": found.range.bounds,
        "kernels": [one.origin for one in found.kernels],
        "regions": [
            {"bounds": bounds, "kernel": numbers[id(kernel)], "loss": loss - 1}
            for bounds, kernel, loss in found.regions()
        ],
        "loss": found.loss - 1,
        "worst_loss": found.losses.max() - 1,
        "left_out_losses": [one - 1 for one in found.regret],
        "samples": len(found.samples),
        "verified": len(found.verified),
    }


def plain(value: Any) -> Any:
    """Return a value made of what JSON has.

    Records are objects with their fields, numbers that are not finite are null, and what JSON has
    nothing for is its text.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value) if math.isfinite(value) else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {one.name: plain(getattr(value, one.name)) for one in fields}
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, Sequence | AbstractSet) and not isinstance(value, str | bytes):
        return [plain(one) for one in value]
    return str(value)
