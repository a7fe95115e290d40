"""What a result says about branches that no inputs take."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import schedlang as sl

NEVER = "block 'y': no input has a[v] * a[v] < -1"


def test_a_result_names_the_sides_that_were_not_compared(tmp_path: Path) -> None:
    workload = sl.workloads.from_script("""
@T.prim_func(s_tir=True)
def f(a: T.Buffer((256,), "float32"), y: T.Buffer((256,), "float32")):
    for i in range(256):
        with T.sblock("y"):
            v = T.axis.spatial(256, i)
            y[v] = T.max(a[v] * a[v], T.float32(-1)) + T.max(a[v], T.float32(0))
""")
    first, again = (
        sl.tune(workload, "cpu", trials=1, finals=0, database=tmp_path / "tune.db")
        for _ in range(2)
    )
    assert first.unreached == again.unreached == (NEVER,)
    assert f"\n  unverified  {NEVER}\n" in str(first)
    assert again.time_split.keys() == {"other"}  # from the database


def test_a_result_with_results_of_the_user_names_them_too() -> None:
    workload = sl.workloads.from_script("""
@T.prim_func(s_tir=True)
def f(a: T.Buffer((256,), "float32"), y: T.Buffer((256,), "float32")):
    for i in range(256):
        with T.sblock("y"):
            v = T.axis.spatial(256, i)
            y[v] = T.min(a[v], T.float32(1e6)) + T.max(a[v], T.float32(0))
""")
    result = sl.tune(
        workload,
        "cpu",
        trials=1,
        finals=0,
        reference=lambda a: np.minimum(a, 1e6).astype("float32") + np.maximum(a, 0),
    )
    assert result.unreached == ("block 'y': no input has a[v] > 1000000",)
