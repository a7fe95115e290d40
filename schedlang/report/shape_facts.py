"""What stands at the top of a set's report: the numbers that matter, and what was tuned."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from schedlang.plot.kernels import loss_text, shared
from schedlang.printed import count_text
from schedlang.report.facts import Tile
from schedlang.report.numbers import duration_text
from schedlang.shapes import ShapeSet
from schedlang.shapes.cover import mean_of

_UNKNOWN = "\N{EN DASH}"


def shape_tiles(found: ShapeSet) -> list[Tile]:
    """Return the numbers that matter, the most important first."""
    return [_shapes(found), _kernels(found), _loss(found), _left_out(found), *_cost(found)]


def _shapes(found: ShapeSet) -> Tile:
    parts = [f"{len(found.points):,} single" if found.points else ""]
    parts += [count_text(len(found.ranges), "range") if found.ranges else ""]
    parts += [f"{len(found.failed)} failed" if found.failed else ""]
    total = len(found.points) + sum(one.range.size for one in found.ranges)
    note = ", ".join(filter(None, parts))
    return Tile("Shapes", f"{total:,}", note, tone="warn" if found.failed else "")


def _kernels(found: ShapeSet) -> Tile:
    of_ranges = sum(len(one.kernels) for one in found.ranges)
    many = sum(len(shared(one)) for one in found.ranges)
    parts = [f"{many} for many shapes"] if many else []
    parts += [f"{of_ranges - many} for one of a range"] if of_ranges > many else []
    parts += [f"{count} {origin}" for origin, count in _origins(found).items()]
    return Tile("Kernels", f"{len(found.points) + of_ranges:,}", ", ".join(parts))


def _origins(found: ShapeSet) -> Counter[str]:
    return Counter(one.origin for one in found.points)


def _loss(found: ShapeSet) -> Tile:
    if not found.ranges:
        return Tile("Loss of ranges", _UNKNOWN, "there is no range")
    losses = [loss for one in found.ranges for loss in one.losses]
    return Tile(
        "Loss of ranges",
        loss_text(_mean(losses)),
        f"at worst {loss_text(max(losses))}, over the best known programs",
    )


def _left_out(found: ShapeSet) -> Tile:
    if not found.ranges:
        return Tile("Left out", _UNKNOWN, "there is no range")
    losses = [loss for one in found.ranges for loss in one.regret]
    note = f"at worst {loss_text(max(losses))}: what shapes lose that are not measured"
    return Tile("Left out", loss_text(_mean(losses)), note)


def _mean(losses: list[float]) -> float:
    return mean_of(np.array(losses)) if all(map(math.isfinite, losses)) else math.inf


def _cost(found: ShapeSet) -> list[Tile]:
    # A set that was read from a file does not know them.
    if not found.measured:
        return [Tile(name, _UNKNOWN, "read from a file") for name in ("Measurements", "Time")]
    verified = sum(len(one.verified) for one in found.ranges)
    note = f"ranges verified at {count_text(verified, 'shape')}" if verified else "all verified"
    ended = "interrupted by Ctrl-C" if found.interrupted else "wall time of the call"
    return [
        Tile("Measurements", f"{found.measured:,}", note),
        Tile("Time", duration_text(found.seconds), ended, tone="warn" * found.interrupted),
    ]


def shape_facts(found: ShapeSet) -> list[tuple[str, str]]:
    """Return what was tuned, by name."""
    facts = [
        ("Template", f"{found.template.name}({', '.join(found.names)})"),
        ("Target", found.target.key),
        ("Serves", found.served),
        ("Ended", "interrupted: kernels of ranges are not made" if found.interrupted else ""),
    ]
    return [(name, value) for name, value in facts if value]
