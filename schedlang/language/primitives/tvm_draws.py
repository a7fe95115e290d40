"""TVM's own draws, for the sampling instructions that have one."""

from __future__ import annotations

from typing import Any

from schedlang.errors import TraceFormatError
from schedlang.instructions.arguments.tvm_reader import TVMReader
from schedlang.instructions.tvm_counterparts import TVMDraw
from schedlang.tvm.schedule import sampling as tvm_sampling


def _factors(reader: TVMReader, given: dict[str, Any], stored: Any, where: str) -> tuple[int, ...]:
    items = enumerate(reader.items(stored, where))
    return tuple(reader.number(item, f"{where}[{k}]") for k, item in items)


def _bounded_factors(
    reader: TVMReader, given: dict[str, Any], stored: Any, where: str
) -> tuple[int, ...]:
    factors = _factors(reader, given, stored, where)
    bound = given["max_innermost_factor"]
    if factors and bound and factors[-1] > bound:
        given["max_innermost_factor"] = None  # TVM takes a given decision beyond its bound
    return factors


def _candidate(reader: TVMReader, given: dict[str, Any], stored: Any, where: str) -> Any:
    position, candidates = reader.number(stored, where), given["candidates"]
    if not 0 <= position < len(candidates):
        raise TraceFormatError(where, f"there are {len(candidates)} candidates, not {position}")
    return candidates[position]


def _location(reader: TVMReader, given: dict[str, Any], stored: Any, where: str) -> int:
    return reader.number(stored, where)


PERFECT_TILE = TVMDraw(
    "SamplePerfectTile", record=tvm_sampling.perfect_tile, read_decision=_bounded_factors
)
PARTITIONED_TILE = TVMDraw(
    "SamplePartitionedTile", record=tvm_sampling.partitioned_tile, read_decision=_factors
)
CATEGORICAL = TVMDraw(
    "SampleCategorical", record=tvm_sampling.categorical, read_decision=_candidate
)
COMPUTE_LOCATION = TVMDraw(
    "SampleComputeLocation", record=tvm_sampling.compute_location, read_decision=_location
)
