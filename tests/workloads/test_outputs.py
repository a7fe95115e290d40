"""``outputs=`` states what is written before it is read, where that cannot be proven."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schedlang.errors import WorkloadError
from schedlang.just_in_time import jit
from schedlang.targets import as_target, load
from schedlang.tvm.program import OUTPUTS
from schedlang.workloads import as_workload, from_module, from_prim_func, from_script
from schedlang.workloads.workload import Workload

INTERLEAVED = """@T.prim_func(s_tir=True)
def main(A: T.Buffer((16,), 'float32'), B: T.Buffer((16,), 'float32')):
    for i in range(8):
        with T.sblock('even'):
            vi = T.axis.S(8, i)
            B[vi * 2] = A[vi * 2]
    for i in range(8):
        with T.sblock('odd'):
            vi = T.axis.S(8, i)
            B[vi * 2 + 1] = A[vi * 2 + 1]
    for i in range(16):
        with T.sblock('sum'):
            vi = T.axis.S(16, i)
            B[vi] = B[vi] + T.float32(1)
"""
SCAN = """@T.prim_func(s_tir=True)
def main(A: T.Buffer((16,), 'float32'), B: T.Buffer((16,), 'float32')):
    with T.sblock('first'):
        B[0] = A[0]
    for i in range(15):
        with T.sblock('scan'):
            vi = T.axis.opaque(15, i)
            B[vi + 1] = B[vi] + A[vi + 1]
"""
VALUES = np.arange(16, dtype="float32")


def roles(workload: Workload) -> list[str]:
    return [argument.role for argument in workload.args]


def test_a_statement_makes_an_output_and_another_program() -> None:
    plain = from_script(INTERLEAVED)
    stated = plain.with_outputs(["B"])
    assert (roles(plain), roles(stated)) == (["input", "inout"], ["input", "output"])
    assert list(stated.func.attrs[OUTPUTS]) == [1]
    for key in ("key", "exact_key", "family_key"):
        assert getattr(plain, key) != getattr(stated, key)
    assert stated.with_outputs(["B"]) is stated


@pytest.mark.parametrize(
    "make",
    [
        lambda: from_script(INTERLEAVED, outputs=["B"]),
        lambda: from_prim_func(from_script(INTERLEAVED).func, outputs=["B"]),
        lambda: from_module(from_script(INTERLEAVED).mod, outputs=["B"]),
        lambda: as_workload(from_script(INTERLEAVED), outputs=["B"]),
        lambda: as_workload(from_script(INTERLEAVED).func, outputs=["B"]),
        lambda: as_workload(from_script(INTERLEAVED).mod, outputs=("B",)),
    ],
)
def test_it_is_stated_where_a_workload_is_made(make: Any) -> None:
    assert make() == from_script(INTERLEAVED).with_outputs(["B"])


def test_what_is_an_output_anyway_keeps_its_keys() -> None:
    scan = from_script(SCAN)
    assert scan.with_outputs(["B"]) is scan.with_outputs([]) is scan
    assert OUTPUTS not in scan.func.attrs


def test_a_text_of_a_stated_output_keeps_it() -> None:
    stated = from_script(INTERLEAVED, outputs=["B"])
    assert from_script(stated.script()) == stated
    made = Workload(stated.mod, "b", "make()").with_outputs(["B"])
    assert made.source == "make()"
    made = Workload(from_script(INTERLEAVED).mod, "b", "make()").with_outputs(["B"])
    assert made.source == "make().with_outputs(['B'])"


UPDATE = INTERLEAVED.replace("B[vi * 2] = A[vi * 2]", "B[vi * 2] = B[vi * 2] + A[vi * 2]")


@pytest.mark.parametrize(
    ("text", "names", "message"),
    [
        (SCAN, ["C"], r"no argument 'C' to be an output.*its arguments are A, B"),
        (SCAN, "B", r"outputs='B' is no list of names"),
        (SCAN, 1, r"outputs=1 is no list of names"),
        (SCAN, [1], r"outputs=\[1\] is no list of names"),
        (SCAN, ["A"], r"argument 'A' is stated to be an output, and it is never written"),
        (UPDATE, ["B"], r"argument 'B' is .* read before anything is written.*leave it out"),
    ],
)
def test_wrong_statements_are_refused(text: str, names: Any, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        from_script(text, outputs=names)


def test_a_position_that_no_argument_has_is_refused() -> None:
    func = from_script(SCAN).func.with_attr(OUTPUTS, [2])
    with pytest.raises(WorkloadError, match="names an argument that it does not have"):
        from_prim_func(func)


def test_jit_returns_the_result_of_a_scan() -> None:
    def scan() -> Workload:
        return from_script(SCAN)

    np.testing.assert_allclose(jit(scan, cache=False)(VALUES), np.cumsum(VALUES))


def test_libraries_say_what_is_stated(tmp_path: Path) -> None:
    stated, target = from_script(INTERLEAVED, outputs=["B"]), as_target("cpu")
    path = target.export_library(stated.mod, tmp_path / "o.so")
    assert [one.role for one in load(path).main.signature.parameters] == ["input", "output"]
