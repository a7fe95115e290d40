"""The table of networks, and the figures over all of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import geometric_mean
from typing import Any

from network_rows.row import (
    BACKEND,
    C_LIBRARY,
    COMPILED,
    DEFAULT,
    EAGER,
    TUNED,
    TVM,
    UNSCHEDULED,
)

_SIDES = (UNSCHEDULED, DEFAULT, TUNED, BACKEND, C_LIBRARY, EAGER, COMPILED, TVM)
_HEAD = (
    "network",
    "import s",
    "calls",
    "tasks",
    "tuned",
    "trials",
    "tuning s",
    *(f"{side} ms" for side in _SIDES),
    "over eager",
    "over compiled",
    "over tune_relax",
    "error",
)


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the table as text, with what failed below it."""
    lines = [_HEAD, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEAD))]
    text = [
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    ]
    text += [
        f"{row['network']}: {side}: {reason}"
        for row in rows
        for side, reason in row["failed"].items()
    ]
    return "\n".join([*text, *_means(rows)])


def over(row: Mapping[str, Any], side: str) -> float | None:
    """Return how many times as long as the tuned network a side takes; None where not known."""
    times = row.get("latency", {})
    return times[side] / times[TUNED] if side in times and TUNED in times else None


def figures(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return geometric means and the lowest ratios, and the rates of both tuners."""
    found: dict[str, Any] = {}
    for side in (EAGER, COMPILED, TVM):
        for kind, convolutional in (("convolutional", True), ("transformers", False)):
            ratios = [
                ratio
                for row in rows
                if row.get("convolutional") == convolutional and (ratio := over(row, side))
            ]
            if ratios:
                found[f"over {side}, {kind}"] = geometric_mean(ratios)
                found[f"lowest over {side}, {kind}"] = min(ratios)
    for side in (BACKEND, C_LIBRARY):
        ratios = [ratio for row in rows if (ratio := over(row, side))]
        if ratios:
            found[f"{side} over tuned"] = geometric_mean(ratios)
            found[f"highest {side} over tuned"] = max(ratios)
    rates = {row["network"]: rate for row in rows if (rate := rate_ratio(row)) is not None}
    if rates:
        found["tune_relax's seconds a trial over ours"] = rates
    found["largest relative error"] = max((_error(row) for row in rows), default=math.nan)
    return found


def rate_ratio(row: Mapping[str, Any]) -> float | None:
    """Return ``tune_relax``'s seconds per trial over ours; None where not known."""
    peer = row.get("facts", {}).get(TVM, {})
    if not peer.get("trials") or not row.get("trials"):
        return None
    ours = row["tuning seconds"] / row["trials"]
    return float(peer["tuning seconds"] / peer["trials"] / ours)


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    times = row.get("latency", {})
    ratios = [over(row, side) for side in (EAGER, COMPILED, TVM)]
    return (
        row["network"],
        _number(row.get("import seconds"), 1),
        str(row.get("calls", "-")),
        str(row.get("tasks", "-")),
        str(row.get("tasks tuned", "-")),
        str(row.get("trials", "-")),
        _number(row.get("tuning seconds"), 0),
        *(
            "failed" if side in row["failed"] else _number(times.get(side), 2, 1e3)
            for side in _SIDES
        ),
        *(_number(ratio, 2) for ratio in ratios),
        f"{_error(row):.0e}",
    )


def _error(row: Mapping[str, Any]) -> float:
    """Return the largest error of the tuned network, relative to the output's magnitude."""
    found: Iterable[Mapping[str, float]] = row.get("errors", {}).get(TUNED, ())
    return max((one["relative"] for one in found), default=math.nan)


def _number(value: float | None, digits: int, scale: float = 1.0) -> str:
    return "-" if value is None else f"{value * scale:.{digits}f}"


def _means(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = []
    for name, value in figures(rows).items():
        if isinstance(value, dict):
            value = ", ".join(f"{network} {ratio:.1f}" for network, ratio in value.items())
        else:
            value = f"{value:.2g}" if "error" in name else f"{value:.2f}"
        lines.append(f"{name}: {value}")
    return lines
