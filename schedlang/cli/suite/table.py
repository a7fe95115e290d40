"""A suite as text: a line for each kernel as it comes, and the figures at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from schedlang.cli.bench.peers import COMPILED, EAGER, OURS
from schedlang.cli.output import table
from schedlang.cli.suite.figures import Figures, by_family, figures, losers
from schedlang.cli.suite.row import Row
from schedlang.measurement import describe_latency
from schedlang.measurement.finals import CONFIDENCE

_WIDTH = 11
_REMEDY = "their figures tell little, so stop it and repeat the call"
# With fewer operations a byte, memory limits a kernel on most machines.
_OPERATIONS_A_BYTE = 4.0
_SIDES = {EAGER: "eager", COMPILED: "compiled"}


def head(names: Sequence[str], sides: int) -> str:
    """Return the head of a table of these kernels; the first ``sides`` of torch have columns."""
    torch = list(_SIDES.values())[:sides]
    return _line("kernel", [OURS, *torch, *(f"/ {one}" for one in torch)], names, "tuning")


def row_line(row: Row, names: Sequence[str], sides: int) -> str:
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


def _latency(row: Row, side: str) -> str:
    return describe_latency(row.latency[side]) if side in row.latency else "-"


def summary(rows: Sequence[Row], name: str, seconds: float) -> str:
    """Return the figures of a suite, by families too, and the kernels that torch runs faster."""
    failed = [row for row in rows if row.failed]
    disturbed = [row for row in rows if row.disturbed]
    lines = [f"{name}: {len(rows)} kernels in {seconds:.0f} s, {_counted(failed)} failed"]
    found = {side: figures(rows, side) for side in _SIDES}
    known = {side: one for side, one in found.items() if one is not None}
    if known:
        lines += ["", _figures(known)]
        families = by_family(rows)
        if len(families) > 1:
            lines += ["", _families(families, list(known))]
    if disturbed:
        lines += ["", f"other work disturbed {len(disturbed)} of {len(rows)} kernels: {_REMEDY}"]
    for side in known:
        lost = losers(rows, side)
        if lost:
            lines += ["", f"{side} is faster for {len(lost)} of {known[side].kernels} kernels:"]
            lines += [f"  {row.kernel}: {_about(row, side)}" for row in lost]
    if failed:
        lines += ["", "failed:"]
        lines += [f"  {row.kernel} ({row.failed}): {row.error}" for row in failed]
    return "\n".join(lines)


def _counted(rows: Sequence[Row]) -> str:
    return str(len(rows)) if rows else "none"


def _figures(known: dict[str, Figures]) -> str:
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


def _families(families: dict[str, list[Row]], sides: list[str]) -> str:
    rows = []
    for name, held in families.items():
        means = [figures(held, side) for side in sides]
        cells = ("-" if one is None else f"{one.geometric_mean:.2f}x" for one in means)
        rows.append((name, str(len(held)), *cells))
    return table(("family (geometric mean)", "kernels", *sides), rows)


def _about(row: Row, side: str) -> str:
    """Say what is known of a kernel that a side runs faster."""
    return "; ".join(_facts(row, side))


def _facts(row: Row, side: str) -> Iterator[str]:
    p_value = row.p_value[side]
    noise = p_value is not None and p_value >= 1 - CONFIDENCE
    yield f"{row.ratio[side]:.2f}x{', as fast within the noise' if noise else ''}"
    yield f"ours {describe_latency(row.latency[OURS])}{_rate(row, OURS)}"
    yield f"{_SIDES[side]} {describe_latency(row.latency[side])}{_rate(row, side)}"
    if side == EAGER and row.slowest_call:
        yield f"torch calls {row.slowest_call}"
    if side == COMPILED:
        yield f"its code calls {', '.join(row.compiled_calls) or 'no library'}"


def _rate(row: Row, side: str) -> str:
    """Return the rate that counts: of operations, or of bytes where there are few operations."""
    if row.flops >= _OPERATIONS_A_BYTE * row.bytes:
        return f" ({row.flops / row.latency[side] / 1e9:.3g} GFLOPS)"
    return f" ({row.bytes / row.latency[side] / 1e9:.3g} GB/s)"
