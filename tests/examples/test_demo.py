"""The demo says for each kernel what the README promises."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

import schedlang as sl

LINE = re.compile(
    r"(?P<name>\w+): unscheduled (?P<before>[\d.e+]+ \w+), best (?P<best>[\d.e+]+ \w+), "
    r"(?P<rate>[\d.]+) GFLOPS, (?P<speedup>\d+)x faster, outputs (?P<state>[\w ]+), in \d+ s"
)


@pytest.fixture(scope="module")
def printed(run_example: Callable[..., str]) -> str:
    return run_example("demo", "--trials", "4")


def test_each_kernel_has_its_figures_and_is_verified(printed: str) -> None:
    found = [match for line in printed.splitlines() if (match := LINE.fullmatch(line))]
    assert [match["name"] for match in found] == ["matmul", "C2D"]
    for match in found:
        assert match["state"] == "verified"
        assert float(match["rate"]) > 0


def test_each_kernel_has_its_trace_as_python(printed: str) -> None:
    """Between the heading and the figures there is a program that makes ``sch``."""
    _, *parts = re.split(r"# The best of 4 candidates for (.*)\n", printed)
    workloads, rest = parts[::2], parts[1::2]
    assert len(workloads) == 2
    for source, text in zip(workloads, rest, strict=True):
        code, _, _ = LINE.sub("\0", text).partition("\0")
        made: dict[str, object] = {}
        exec(compile(code, source, "exec"), made)
        sch = made["sch"]
        assert isinstance(sch, sl.Schedule)
        assert str(sch.workload) == source
        assert "multi_level_tiling" in code and len(sch.trace) > 10
