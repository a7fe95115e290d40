"""Arguments of a workload that are known ahead of all calls."""

from __future__ import annotations

from typing import Any

import pytest

from schedlang import workloads
from schedlang.errors import WorkloadError
from schedlang.tvm.packing import weight_positions
from schedlang.workloads.workload import Workload


def test_weights_are_marked_and_make_another_workload() -> None:
    plain = workloads.matmul(8, 8, 8)
    marked = plain.with_weights(["B"])
    assert weight_positions(marked.func) == (1,)
    assert plain.key != marked.key and plain.exact_key != marked.exact_key
    assert plain.family_key == marked.family_key, "good schedules are good for both"
    assert marked.source == plain.source + ".with_weights(['B'])"
    assert marked.with_weights(["B"]) is marked and plain.with_weights([]) is plain
    assert weight_positions(marked.with_weights(["A"]).func) == (0, 1)
    assert workloads.from_script(marked.script()) == marked
    assert Workload(plain.mod, "mine").with_weights(["B"]).source == ""


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["D"], r"no argument 'D' to be a weight.*its arguments are A, B, C"),
        ("B", r"weights='B' is no list of names.*weights=\['w'\]"),
        ([1], r"weights=\[1\] is no list of names"),
        (["C"], r"argument 'C' is written, so it is no weight"),
    ],
)
def test_wrong_names_are_refused(names: Any, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        workloads.matmul(8, 8, 8).with_weights(names)
