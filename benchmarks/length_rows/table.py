"""The table of sizes, and the figures over all of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import geometric_mean
from typing import Any

from length_rows.row import DYNAMIC, EAGER, FROZEN, OURS

_SIDES = (OURS, EAGER, DYNAMIC, FROZEN)
_PEERS = (EAGER, DYNAMIC, FROZEN)
# Largest error of a right output, relative to its largest magnitude.
_TOLERANCE = 1e-4


def figures(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return, for each model, geometric means over sizes, the lowest ratios, and what is right."""
    found: dict[str, Any] = {}
    for row in rows:
        for peer in _PEERS:
            ratios = [ratio for one in row["sizes"].values() if (ratio := over(one, peer))]
            if ratios:
                found[f"{row['network']} over {peer}"] = geometric_mean(ratios)
                found[f"{row['network']} lowest over {peer}"] = min(ratios)
        wrong = [error(one) for one in row["sizes"].values()]
        if wrong:
            right = sum(one <= _TOLERANCE for one in wrong)
            found[f"{row['network']} sizes verified"] = f"{right} of {len(wrong)}"
            found[f"{row['network']} largest relative error"] = max(wrong)
    return found


def over(size: Mapping[str, Any], side: str) -> float | None:
    """Return how many times as long as ours a side takes; None where not known."""
    times = size["latency"]
    return times[side] / times[OURS] if side in times and OURS in times else None


def error(size: Mapping[str, Any]) -> float:
    """Return the largest error of our outputs, relative to their magnitude; NaN if not known."""
    found = size["errors"].get(OURS, ())
    return max((one["relative"] for one in found), default=math.nan)


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table for each model as text, with what failed below it."""
    return "\n\n".join("\n".join(_lines(row)) for row in rows)


def _lines(row: Mapping[str, Any]) -> Iterator[str]:
    if "trials" in row:
        yield (
            f"{row['network']}: {row['tasks tuned']} of {row['tasks']} tasks tuned, "
            f"{row['trials']} trials in {row['tuning seconds']:.0f} s; "
            f"imported in {row['import seconds']:.0f} s"
        )
    facts = row.get("facts", {}).get(OURS)
    if facts:
        yield (
            f"one executable: compiled in {facts['compile seconds']:.0f} s, "
            f"{facts['bytes of weights'] / 2**20:.0f} MiB of weights, packed ones included; "
            f"{facts['bytes unpacked'] / 2**20:.0f} MiB as imported"
        )
    head = ("size", *(f"{side} ms" for side in _SIDES), *(f"over {one}" for one in _PEERS), "error")
    lines = [head, *(_cells(size, one) for size, one in row["sizes"].items())]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        yield "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
    for name, value in figures([row]).items():
        yield f"{name}: {value if isinstance(value, str) else f'{value:.3g}'}"
    for side, reason in row["failed"].items():
        yield f"{side}: {reason}"


def _cells(size: str, one: Mapping[str, Any]) -> tuple[str, ...]:
    times = one["latency"]
    ratios = (over(one, peer) for peer in _PEERS)
    return (
        size,
        *(f"{times[side] * 1e3:.3f}" if side in times else "-" for side in _SIDES),
        *("-" if ratio is None else f"{ratio:.2f}" for ratio in ratios),
        f"{error(one):.0e}",
    )
