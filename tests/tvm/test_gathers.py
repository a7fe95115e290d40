"""Vectors whose elements are far apart: LLVM does not look for vectors in many of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import te
from tvm.ir import IRModule
from tvm.s_tir import Schedule
from tvm.target import Target as TVMTarget

from schedlang.targets import Target, build_callable
from schedlang.targets.kinds import code_generator
from schedlang.tvm.codegen import runtime
from schedlang.tvm.codegen.compiler import code_size, compile_functions, fitting_options
from schedlang.tvm.codegen.pipeline import lower
from schedlang.tvm.program import as_main

WITHOUT_SLP = "-vectorize-slp=false"


def transposed(rows: int, columns: int, *, stores: bool = False) -> IRModule:
    """A transpose in vectors of all its columns, unrolled over its rows."""
    a = te.placeholder((columns, rows), name="A")
    b = te.compute((rows, columns), lambda i, j: a[j, i] + 1, name="B")
    schedule = Schedule(te.create_prim_func([a, b]))
    i, j = schedule.get_loops(schedule.get_sblock("B"))
    if stores:
        schedule.reorder(j, i)
        i, j = j, i
    schedule.unroll(i)
    schedule.vectorize(j)
    return as_main(schedule.mod["main"])


@pytest.fixture
def target() -> TVMTarget:
    return code_generator(Target("cpu").spec()).target


def lowered(mod: IRModule, target: TVMTarget) -> IRModule:
    return lower(mod, target)[0]


@pytest.mark.parametrize(
    ("rows", "columns", "stores", "count"),
    [(4, 8, False, 32), (8, 4, True, 32), (16, 16, False, 256), (1, 8, False, 0)],
)
def test_elements_apart_are_counted(
    target: TVMTarget, rows: int, columns: int, stores: bool, count: int
) -> None:
    program = lowered(transposed(rows, columns, stores=stores), target)
    assert code_size(program).gathered == count


@pytest.mark.parametrize(
    ("index", "count"),
    [(lambda i: i * 5 % 64, 16), (lambda i: i // 16, 0)],
    ids=["no steps", "one element"],
)
def test_elements_that_no_step_leads_to_count(
    target: TVMTarget, index: Callable[[Any], Any], count: int
) -> None:
    a = te.placeholder((64,), name="A")
    b = te.compute((16,), lambda i: a[index(i)], name="B")
    schedule = Schedule(te.create_prim_func([a, b]))
    schedule.vectorize(schedule.get_loops(schedule.get_sblock("B"))[-1])
    program = lowered(as_main(schedule.mod["main"]), target)
    assert code_size(program).gathered == count


def test_only_long_programs_are_compiled_without_that_pass(target: TVMTarget) -> None:
    short, long = transposed(16, 16), transposed(32, 16)
    assert fitting_options(code_size(lowered(short, target)), target) is target
    found = fitting_options(code_size(lowered(long, target)), target)
    assert list(found.attrs["cl-opt"]) == [WITHOUT_SLP]
    assert found.attrs["mcpu"] == target.attrs["mcpu"]
    wide = TVMTarget({"kind": "llvm", "cl-opt": ["-vectorize-loops=false"]})
    found = fitting_options(code_size(lowered(long, wide)), wide)
    assert list(found.attrs["cl-opt"]) == ["-vectorize-loops=false", WITHOUT_SLP]


def test_functions_of_one_network_keep_their_own_options(target: TVMTarget) -> None:
    """Together they have more such elements than LLVM is given, and each alone has fewer."""
    functions = {
        name: transposed(rows, 16)["main"].with_attr("global_symbol", name)
        for name, rows in (("short", 16), ("other", 8), ("long", 32))
    }
    made = compile_functions(IRModule(functions), target)
    assert made is not None
    [imported] = made.imports
    texts = [str(one.inspect_source("asm")) for one in (made, imported)]
    with_pass = next(text for text in texts if "__tvm_ffi_short:" in text)
    [without_pass] = [text for text in texts if text is not with_pass]
    assert "__tvm_ffi_other:" in with_pass
    assert "__tvm_ffi_long:" in without_pass and "__tvm_ffi_short:" not in without_pass
    for rows, name in ((16, "short"), (32, "long")):
        out = runtime.empty_tensor((rows, 16), "float32")
        data = np.arange(16.0 * rows, dtype="float32").reshape(16, rows)
        made.get_function(name, query_imports=True)(runtime.borrow_array(data), out)
        np.testing.assert_array_equal(out.numpy(), data.T + 1)


@pytest.mark.parametrize("rows", [16, 32])
def test_it_computes_the_same(rows: int) -> None:
    a, out = np.arange(16.0 * rows, dtype="float32").reshape(16, rows), np.empty((rows, 16), "f4")
    build_callable(transposed(rows, 16))(a, out)
    np.testing.assert_array_equal(out, a.T + 1)
