"""What ``benchmarks/networks.py`` and ``network_kills.py`` compute from what they measured."""

from __future__ import annotations

import math
from typing import Any

import network_kills
import numpy as np
import pytest
from network_rows.side import SideError
from network_rows.table import figures, rate_ratio, table
from network_rows.turns import SLOW_SECONDS, errors, time_in_turns


def row(network: str, convolutional: bool, **latency: float) -> dict[str, Any]:
    return {
        "network": network,
        "convolutional": convolutional,
        "trials": 100,
        "tuning seconds": 50.0,
        "latency": latency,
        "errors": {"tuned": [{"absolute": 1.0, "relative": 1e-6}]},
        "failed": {},
    }


ROWS = [
    row("a", True, tuned=1.0, eager=2.0, compiled=1.0),
    row("b", True, tuned=1.0, eager=8.0),
    row("c", False, tuned=2.0, eager=1.0, compiled=3.0, tune_relax=4.0)
    | {"facts": {"tune_relax": {"trials": 10, "tuning seconds": 20.0}}},
    {"network": "d", "failed": {"tuned": "it broke"}},
]


def test_figures() -> None:
    found = figures(ROWS)
    assert found["over eager, convolutional"] == pytest.approx(4.0)
    assert found["lowest over eager, convolutional"] == 2.0
    assert found["over compiled, convolutional"] == 1.0
    assert found["over eager, transformers"] == 0.5
    assert found["over tune_relax, transformers"] == 2.0
    assert found["tune_relax's seconds a trial over ours"] == {"c": 4.0}
    assert rate_ratio(ROWS[0]) is None


def test_a_network_that_failed_has_a_line_with_the_reason() -> None:
    text = table(ROWS)
    assert "d: tuned: it broke" in text
    assert [line for line in text.splitlines() if line.lstrip().startswith("d ")]


class Told:
    """A side that tells its times; it fails in the round with number ``fails``."""

    def __init__(self, name: str, *, first: float = 1.0, fails: int = -1) -> None:
        self.name, self.first_seconds, self.fails, self.calls = name, first, fails, 0

    def samples(self, *_: float) -> list[float]:
        self.calls += 1
        if self.calls == self.fails:
            raise SideError("its process ended")
        return [1.0, 2.0, 9.0]


def test_sides_are_timed_in_turns() -> None:
    sides: list[Any] = [Told("slow", first=2 * SLOW_SECONDS), Told("good"), Told("bad", fails=2)]
    medians, failed = time_in_turns(sides, 3, 0.1)
    assert medians == {"slow": [2 * SLOW_SECONDS], "good": [2.0] * 3}
    assert failed == {"bad": "its process ended"}
    assert [side.calls for side in sides] == [0, 3, 2]


def test_errors_of_outputs() -> None:
    right = np.array([1.0, -4.0], "float32")
    close, wrong, other = right + 1e-3, np.array([1.0, np.nan], "float32"), np.zeros(3, "float32")
    found = errors([close, wrong, other], [right] * 3)
    assert found[0]["absolute"] == pytest.approx(1e-3, rel=1e-3)
    assert found[0]["relative"] == pytest.approx(2.5e-4, rel=1e-3)
    assert [one["relative"] for one in found[1:]] == [math.inf] * 2


def test_calls_that_differ() -> None:
    same = {"a": ["x", "y"], "b": ["z"]}
    other = {"a": ["y", "x"], "b": ["z", "z"]}
    none = network_kills.compare(same, same, same_programs=True)
    assert (none["trials"], none["twice"], none["numbers"], none["programs"]) == (3, 0, 0, 0)
    found = network_kills.compare(other, same, same_programs=True)
    assert (found["twice"], found["numbers"], found["programs"]) == (1, 1, 2)
    assert network_kills.compare(other, same, same_programs=False)["programs"] == 0
