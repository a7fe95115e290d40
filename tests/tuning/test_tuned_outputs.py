"""``tune`` of outputs that are read after they were written: from end to end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import WorkloadError
from schedlang.workloads import from_script
from schedlang.workloads.workload import Workload
from tests.workloads.test_outputs import INTERLEAVED, SCAN, VALUES

HALF = INTERLEAVED.replace("B[vi * 2 + 1] = A[vi * 2 + 1]", "B[vi * 2] = A[vi * 2 + 1]")


def test_tune_takes_the_inputs_of_a_scan_alone() -> None:
    result = sl.tune(from_script(SCAN), trials=2, finals=0, inputs=[VALUES], reference=np.cumsum)
    assert result.best.record.verified
    out = np.full(16, np.nan, "float32")
    result.best.build()(VALUES, out)
    np.testing.assert_allclose(out, np.cumsum(VALUES))


def test_a_stated_output_goes_through_tune_database_library_and_jit(tmp_path: Path) -> None:
    program, database = from_script(INTERLEAVED), tmp_path / "o.db"
    result = sl.tune(program, trials=2, finals=0, inputs=[VALUES], outputs=["B"], database=database)
    assert result.best.record.verified
    stated = program.with_outputs(["B"])
    assert sl.best(program, database=database) is None
    found = sl.best(stated, database=database)
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
