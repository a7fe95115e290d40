"""The demo says for each kernel what the README promises."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

import pytest

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
    assert [eval_name(workload) for workload in workloads] == ["matmul", "C2D"]
    for text in rest:
        code, _, _ = LINE.sub("\0", text).partition("\0")
        tree = ast.parse(code)
        assigned = {ast.unparse(node.targets[0]) for node in tree.body if type(node) is ast.Assign}
        assert "sch" in assigned
        assert "sch.split(" in code


def eval_name(source: str) -> str:
    """``sl.workloads.matmul(n=512) -> matmul``."""
    return source.partition("(")[0].rpartition(".")[2]
