"""A suite as text: a line for each kernel as it comes, and the figures at the end."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from schedlang.bench.measuring import SuiteRow
from schedlang.bench.peers import COMPILED, EAGER, OURS
from schedlang.measurement import describe_latency
from schedlang.measurement.finals import CONFIDENCE
from schedlang.terminal import table


@dataclass(frozen=True)
class Figures:
    """Ratios of kernels: latency of a side over ours, so that above 1 we are faster.

    Attributes
    ----------
    kernels: number of kernels that both sides ran.
    at_least_as_fast: number of those with a ratio of 1 or more.
    geometric_mean, best, percentile_90, lowest: of the ratios.
    """

    kernels: int
    at_least_as_fast: int
    geometric_mean: float
    best: float
    percentile_90: float
    lowest: float


def figures(rows: Iterable[SuiteRow], side: str) -> Figures | None:
    """Return how kernels compare with a side; None where no kernel has both latencies."""
    ratios = [row.ratio[side] for row in rows if side in row.ratio]
    if not ratios:
        return None
    return Figures(
        kernels=len(ratios),
        at_least_as_fast=sum(ratio >= 1 for ratio in ratios),
        geometric_mean=statistics.geometric_mean(ratios),
        best=max(ratios),
        percentile_90=float(np.percentile(ratios, 90)),
        lowest=min(ratios),
    )


def by_family(rows: Sequence[SuiteRow]) -> dict[str, list[SuiteRow]]:
    """Return the rows by the first word of their names: ``matmul`` of ``matmul.q_proj.s32``."""
    found: dict[str, list[SuiteRow]] = {}
    for row in rows:
        found.setdefault(row.kernel.partition(".")[0], []).append(row)
    return found


def losers(rows: Iterable[SuiteRow], side: str) -> list[SuiteRow]:
    """Return the kernels that a side runs faster, the slowest of ours first."""
    lost = [row for row in rows if row.ratio.get(side, 1.0) < 1]
    return sorted(lost, key=lambda row: row.ratio[side])


_WIDTH = 11
_REMEDY = "their figures tell little, so stop it and repeat the call"
# With fewer operations a byte, memory limits a kernel on most machines.
_OPERATIONS_A_BYTE = 4.0
_SIDES = {EAGER: "eager", COMPILED: "compiled"}


def head(names: Sequence[str], sides: int) -> str:
    """Return the head of a table of these kernels; the first ``sides`` of torch have columns."""
    torch = list(_SIDES.values())[:sides]
    return _line("kernel", [OURS, *torch, *(f"/ {one}" for one in torch)], names, "tuning")


def row_line(row: SuiteRow, names: Sequence[str], sides: int) -> str:
    """Return the line of a kernel; ratios above 1 say how much faster it is."""
    if row.failed and OURS not in row.latency:
        return f"{row.kernel.ljust(_longest(names))}  failed ({row.failed}): {row.error}"
    torch = list(_SIDES)[:sides]
    cells = [_latency(row, one) for one in (OURS, *torch)]
    cells += [f"{row.ratio[one]:.2f}x" if one in row.ratio else "-" for one in torch]
    said = f"{row.trials} trials, {row.tuning_seconds:.0f} s"
    notes = [said, *row.missing.values()] if sides else [said]
    notes += [row.disturbed] if row.disturbed else []
    return _line(row.kernel, cells, names, "; ".join(notes))


def _line(name: str, cells: Sequence[str], names: Sequence[str], note: str) -> str:
    aligned = "".join(cell.rjust(_WIDTH) for cell in cells)
    return f"{name.ljust(_longest(names))}{aligned}  {note}"


def _longest(names: Sequence[str]) -> int:
    return max(map(len, ("kernel", *names)))


def _latency(row: SuiteRow, side: str) -> str:
    return describe_latency(row.latency[side]) if side in row.latency else "-"


def summary(rows: Sequence[SuiteRow], name: str, seconds: float) -> str:
    """Return the figures of a suite, by families too, and the kernels that torch runs faster."""
    failed = [row for row in rows if row.failed]
    disturbed = [row for row in rows if row.disturbed]
    lines = [f"{name}: {len(rows)} kernels in {seconds:.0f} s, {len(failed) or 'none'} failed"]
    found = {side: figures(rows, side) for side in _SIDES}
    known = {side: one for side, one in found.items() if one is not None}
    if known:
        lines += ["", _figures_table(known)]
        families = by_family(rows)
        if len(families) > 1:
            lines += ["", _families(families, list(known))]
    if disturbed:
        lines += ["", f"other work disturbed {len(disturbed)} of {len(rows)} kernels: {_REMEDY}"]
    for side in known:
        lost = losers(rows, side)
        if lost:
            lines += ["", f"{side} is faster for {len(lost)} of {known[side].kernels} kernels:"]
            lines += [f"  {row.kernel}: {'; '.join(_facts(row, side))}" for row in lost]
    if failed:
        lines += ["", "failed:"]
        lines += [f"  {row.kernel} ({row.failed}): {row.error}" for row in failed]
    return "\n".join(lines)


def _figures_table(known: dict[str, Figures]) -> str:
    sides = list(known.values())
    return table(
        ("latency of torch over ours", *known),
        [
            (
                "at or above 1",
                *(f"{one.at_least_as_fast} / {one.kernels}" for one in sides),
            ),
            ("geometric mean", *(f"{one.geometric_mean:.2f}x" for one in sides)),
            ("best", *(f"{one.best:.2f}x" for one in sides)),
            ("90th percentile", *(f"{one.percentile_90:.2f}x" for one in sides)),
            ("lowest", *(f"{one.lowest:.2f}x" for one in sides)),
        ],
    )


def _families(families: dict[str, list[SuiteRow]], sides: list[str]) -> str:
    rows = []
    for name, held in families.items():
        means = [figures(held, side) for side in sides]
        cells = ("-" if one is None else f"{one.geometric_mean:.2f}x" for one in means)
        rows.append((name, str(len(held)), *cells))
    return table(("family (geometric mean)", "kernels", *sides), rows)


def _facts(row: SuiteRow, side: str) -> Iterator[str]:
    """Say what is known of a kernel that a side runs faster."""
    p_value = row.p_value[side]
    noise = p_value is not None and p_value >= 1 - CONFIDENCE
    yield f"{row.ratio[side]:.2f}x{', as fast within the noise' if noise else ''}"
    yield f"ours {describe_latency(row.latency[OURS])}{_rate(row, OURS)}"
    yield f"{_SIDES[side]} {describe_latency(row.latency[side])}{_rate(row, side)}"
    if side == EAGER and row.slowest_call:
        yield f"torch calls {row.slowest_call}"
    if side == COMPILED:
        yield f"its code calls {', '.join(row.compiled_calls) or 'no library'}"


def _rate(row: SuiteRow, side: str) -> str:
    """Return the rate that counts: of operations, or of bytes where there are few operations."""
    if row.flops >= _OPERATIONS_A_BYTE * row.bytes:
        return f" ({row.flops / row.latency[side] / 1e9:.3g} GFLOPS)"
    return f" ({row.bytes / row.latency[side] / 1e9:.3g} GB/s)"
