"""The request that a worker starts with: the workload, and how to make inputs and code for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from schedlang.targets.roofline import shortest_time
from schedlang.targets.worker.pool import START_TIMEOUT, Request
from schedlang.tvm.program import to_json
from schedlang.workloads.workload import Argument, Workload

if TYPE_CHECKING:
    from schedlang.targets.target import Target


def start_request(
    workload: Workload, target: Target, seed: int, *, reference: bool, **more: Any
) -> Request:
    """Start a worker.

    Parameters
    ----------
    workload, target: what is measured, and for what.
    seed: of the random inputs.
    reference: whether results are compared with the unscheduled program's.
    more: what only this kind of worker reads.
    """
    header = {
        "request": "start",
        "code": target.spec(),
        "seed": seed,
        "reference": reference,
        "shortest_time": shortest_time(workload, target),
        "args": [
            {"name": arg.name, "shape": list(arg.shape), "dtype": arg.dtype, "role": arg.role}
            for arg in workload.args
        ],
        **more,
    }
    return Request(header, (to_json(workload.mod).encode(),), START_TIMEOUT)


def read_arguments(header: Mapping[str, Any]) -> list[Argument]:
    """The workload's arguments, from the header of such a request."""
    return [
        Argument(arg["name"], tuple(arg["shape"]), arg["dtype"], arg["role"])
        for arg in header["args"]
    ]
