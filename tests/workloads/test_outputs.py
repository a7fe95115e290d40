"""``outputs=`` states what is written before it is read, where that cannot be proven."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import WorkloadError
from schedlang.tvm.stated_outputs import OUTPUTS
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
HALF = INTERLEAVED.replace("B[vi * 2 + 1] = A[vi * 2 + 1]", "B[vi * 2] = A[vi * 2 + 1]")
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


def test_tune_takes_the_inputs_of_a_scan_alone() -> None:
    result = sl.tune(from_script(SCAN), trials=2, finals=0, inputs=[VALUES], reference=np.cumsum)
    assert result.best.record.verified
    out = np.full(16, np.nan, "float32")
    result.best.build()(VALUES, out)
    np.testing.assert_allclose(out, np.cumsum(VALUES))


def test_jit_returns_the_result_of_a_scan() -> None:
    def scan() -> Workload:
        return from_script(SCAN)

    np.testing.assert_allclose(sl.jit(scan, cache=False)(VALUES), np.cumsum(VALUES))


def test_a_stated_output_goes_through_tune_database_library_and_jit(tmp_path: Path) -> None:
    program, database = from_script(INTERLEAVED), tmp_path / "o.db"
    result = sl.tune(program, trials=2, finals=0, inputs=[VALUES], outputs=["B"], database=database)
    assert result.best.record.verified
    stated = program.with_outputs(["B"])
    assert sl.best(program, database) is None
    found = sl.best(stated, database)
    assert found is not None
    path = found.export_library(tmp_path / "o.so")
    assert sl.load(path).main.signature.parameters[1].role == "output"

    def interleaved() -> Workload:
        return stated

    made = sl.jit(interleaved, database=database, cache=tmp_path / "cache")
    np.testing.assert_allclose(made(VALUES), VALUES + 1)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_a_wrong_statement_is_found_by_verification(dtype: str) -> None:
    """Elements that nobody wrote have other values before each call."""
    workload = from_script(HALF.replace("float32", dtype), outputs=["B"])
    with pytest.raises(
        WorkloadError, match="argument 1 is stated to be an output, and the program"
    ):
        sl.tune(workload, trials=2, finals=0, inputs=[VALUES.astype(dtype)])
