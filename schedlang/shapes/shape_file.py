"""Sets of shapes as files: traces, trees and figures in JSON, with a checksum."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from schedlang.errors import SchedlangError, TargetError, TraceFormatError, WorkloadError
from schedlang.files import write_text
from schedlang.language.schedule import Trace
from schedlang.shapes.dispatch import Tree, from_json, labels_of, regions, to_json
from schedlang.shapes.extents import Extents, Range, as_shapes
from schedlang.shapes.ranges import (
    Kernel,
    PointKernel,
    RangeKernels,
    in_one,
    kernel_alone,
    kernel_of,
    unified,
)
from schedlang.workloads.construct import Template

_FORMAT = "schedlang shapes 1"


def document(
    template: Template,
    target_key: str,
    names: Sequence[str],
    points: Sequence[PointKernel],
    ranges: Sequence[RangeKernels],
) -> dict[str, Any]:
    """Return a set as JSON values."""
    return {
        "format": _FORMAT,
        "template": template.name,
        "target": target_key,
        "names": list(names),
        "points": [_point_json(one, template) for one in points],
        "ranges": [_range_json(one, template) for one in ranges],
    }


def write(path: Path, written: Mapping[str, Any]) -> Path:
    """Write a document with its checksum."""
    text_ = json.dumps({**written, "checksum": _checksum(written)}, indent=1)
    write_text(path, text_ + "\n", "the set of shapes")
    return path


def read(
    path: Path, template: Template, target_key: str
) -> tuple[tuple[str, ...], tuple[PointKernel, ...], tuple[RangeKernels, ...]]:
    """Read names, points and ranges; see ``ShapeSet.load`` for the errors."""
    found = _checked(path)
    if found["target"] != target_key:
        raise TargetError(f"{path}: it was tuned on {found['target']}, and this is {target_key}")
    try:
        points = tuple(_point(one, template) for one in found["points"])
        ranges = tuple(_range(one, template) for one in found["ranges"])
        return tuple(found["names"]), points, ranges
    except WorkloadError:
        raise
    except (
        SchedlangError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as error:
        raise TraceFormatError(str(path), f"it cannot be read: {error}") from error


def _checked(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TraceFormatError(str(path), f"it cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise TraceFormatError(str(path), f"it is damaged: {error}") from None
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise TraceFormatError(str(path), "it holds no set of shapes of this version")
    if found.pop("checksum", None) != _checksum(found):
        raise TraceFormatError(
            str(path),
            "it was changed after it was written: its checksum is another one; save the set again",
        )
    return found


def _checksum(written: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(written, sort_keys=True).encode()).hexdigest()


def _program(template: Template, extents: Extents, key: str) -> Any:
    workload = template(extents)
    if workload.key != key:
        raise WorkloadError(
            f"{template.call(extents)} returns another program than the one that was tuned",
            "tune again, or load it with the template that was tuned",
        )
    return workload


def _point_json(one: PointKernel, template: Template) -> dict[str, Any]:
    return {
        "extents": one.extents,
        "key": template(one.extents).key,
        "weight": one.weight,
        "origin": one.origin,
        "latency": None if math.isnan(one.latency) else one.latency,
        "trials": one.trials,
        "trace": one.trace.to_json(),
    }


def _point(one: Mapping[str, Any], template: Template) -> PointKernel:
    extents = dict(one["extents"])
    workload = _program(template, extents, one["key"])
    trace = Trace.from_json(one["trace"], workload)
    latency = math.nan if one["latency"] is None else float(one["latency"])
    return PointKernel(extents, one["weight"], trace, one["origin"], latency, one["trials"])


def _range_json(one: RangeKernels, template: Template) -> dict[str, Any]:
    return {
        "bounds": {name: list(bound) for name, bound in one.range.bounds.items()},
        "weight": one.range.weight,
        "exact": one.range.exact,
        "kernels": [
            {
                "origin": kernel.origin,
                "extents": kernel.extents,
                "alone": kernel.alone,
                "key": template(kernel.extents).key,
                "trace": kernel.trace.to_json(),
            }
            for kernel in one.kernels
        ],
        "tree": to_json(one.tree),
        "samples": list(one.samples),
        "latencies": [[_number(x) for x in row] for row in one.latencies.tolist()],
        "best": one.best.tolist(),
        "regret": [_number(x) for x in one.regret.tolist()],
        "verified": list(one.verified),
        "measured": one.measured,
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _numbers(values: Any) -> np.ndarray:
    found: np.ndarray = np.array(values, dtype=float)
    return np.where(np.isnan(found), np.inf, found)


def _range(one: Mapping[str, Any], template: Template) -> RangeKernels:
    bounds = {name: (low, high) for name, (low, high) in one["bounds"].items()}
    [asked] = as_shapes([(bounds, one["weight"])], int(one["exact"])).ranges
    program = unified(template, asked)
    kernels: list[Kernel] = []
    for given in one["kernels"]:
        extents = dict(given["extents"])
        workload = _program(template, extents, given["key"])
        trace = Trace.from_json(given["trace"], workload)
        if given["alone"]:
            kernels.append(kernel_alone(given["origin"], extents, trace))
        else:
            kernels.append(kernel_of(given["origin"], extents, trace, program))
    tree = from_json(one["tree"])
    _check_tree(tree, asked, kernels)
    samples = tuple(map(dict, one["samples"]))
    latencies, best, regret = (_numbers(one[name]) for name in ("latencies", "best", "regret"))
    everywhere = sum(not kernel.alone for kernel in kernels)
    if latencies.shape != (len(samples), everywhere) or not (
        best.shape == regret.shape == (len(samples),)
    ):
        raise ValueError("it has figures of other shapes than its samples")
    if not (np.isfinite(best).all() and (best > 0).all()):
        raise ValueError("it has latencies that are not positive")
    if not all(sample in asked for sample in samples):
        raise ValueError("it has samples outside its range")
    return RangeKernels(
        asked,
        program,
        tuple(kernels),
        tree,
        in_one(program, asked.bounds, tree, kernels),
        samples,
        latencies,
        best,
        regret,
        tuple(map(dict, one["verified"])),
        int(one["measured"]),
    )


def _check_tree(tree: Tree, asked: Range, kernels: Sequence[Kernel]) -> None:
    """Raise ValueError for a tree that takes a kernel where it cannot run."""
    if not labels_of(tree) <= set(range(len(kernels))):
        raise ValueError("its tree names kernels that it does not have")
    for bounds, number in regions(tree, asked.bounds):
        kernel = kernels[number]
        only = {name: (value, value) for name, value in kernel.extents.items()}
        if kernel.alone and bounds != only:
            raise ValueError("its tree takes a kernel of one shape for others")
