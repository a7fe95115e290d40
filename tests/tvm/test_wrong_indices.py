"""Indices that TVM 0.27 computes wrongly: found, said, and not made by inlining."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te

import schedlang as sl
from schedlang.errors import InstructionError
from schedlang.language.schedule import Schedule
from schedlang.modules.shared.auto_inline import auto_inline
from schedlang.modules.shared.inline_constants import inline_constants
from schedlang.targets import build_callable
from schedlang.tuning.arguments import WrongIndexWarning, warn_of_wrong_indices
from schedlang.tvm.analysis import wrong_indices
from schedlang.workloads import from_te
from schedlang.workloads.workload import Workload
from tests.modules.module_runs import sampled

N = 36
mod, div = te.indexmod, te.indexdiv
Index = Callable[[Any], Any]


def gather(index: Index) -> Workload:
    x = te.placeholder((N,), name="x")
    return from_te([x, te.compute((N,), lambda j: x[index(j)] + 1.0, name="y")], "gather")


def chain(first: Index, second: Index) -> Workload:
    x = te.placeholder((N,), name="x")
    y = te.compute((N,), lambda j: x[first(j)] + 1.0, name="y")
    return from_te([x, te.compute((N,), lambda j: y[second(j)] * 2.0, name="z")], "chain")


WRONG: list[Index] = [
    lambda j: mod(mod(j + 35, N) + 35, N),
    lambda j: mod(div(j + 3, N) + 35, N),
    lambda j: div(mod(j + 3, N) + 7, N),
]
RIGHT: list[Index] = [
    lambda j: mod(j + 35, N),
    lambda j: mod(mod(j, 12) + 5, 12),
    lambda j: mod(mod(j + 3, N), 6),
    lambda j: div(j, 6) * 4 + mod(j, 4),
    lambda j: div(mod(j + 3, N), 6),
    lambda j: div(div(j + 3, 5) + 2, 7),
]


def is_computed_right(index: Index) -> bool:
    """Whether TVM's own build of the program reads the elements that it should."""
    built = tvm.compile(gather(index).mod, target="llvm")
    x = np.arange(N, dtype="float32")
    y = tvm.runtime.empty((N,), "float32")
    built["main"](tvm.runtime.tensor(x), y)
    return bool((y.numpy() == x[[eval_index(index, j) for j in range(N)]] + 1).all())


def eval_index(index: Index, j: int) -> int:
    return int(tvm.sym.Analyzer().simplify(index(tvm.tirx.IntImm("int32", j))))


@pytest.mark.parametrize("index", WRONG)
def test_what_tvm_computes_wrongly_is_found(index: Index) -> None:
    assert not is_computed_right(index), "TVM does it right by now"
    (found,) = wrong_indices(gather(index).mod)
    assert found.startswith("x[(")


@pytest.mark.parametrize("index", RIGHT)
def test_what_tvm_computes_right_is_not(index: Index) -> None:
    assert is_computed_right(index)
    assert wrong_indices(gather(index).mod) == []


def test_indices_that_depend_on_data_are_computed_as_they_are() -> None:
    x, p = te.placeholder((N,), name="x"), te.placeholder((N,), "int32", name="p")
    y = te.compute((N,), lambda j: x[mod(mod(p[j] + 35, N) + 35, N)], name="y")
    assert wrong_indices(from_te([x, p, y], "gather").mod) == []


def roll(j: Any) -> Any:
    return mod(j + 35, N)


def test_inlining_does_not_make_one() -> None:
    workload = chain(roll, roll)
    sch = sampled(workload, auto_inline())
    assert "inline" not in str(sch.trace) and wrong_indices(sch.mod) == []
    for inline, block in (("compute_inline", "y"), ("reverse_compute_inline", "z")):
        sch = Schedule(workload)
        with pytest.raises(
            InstructionError, match=r"x\[\(.*TVM 0.27 computes wrongly|invert|biject"
        ):
            getattr(sch, inline)(sch.get_block(block))
        assert wrong_indices(sch.mod) == []


def test_inlining_that_stays_right_goes_on() -> None:
    for first, second in ((roll, lambda j: j), (lambda j: j, roll), (roll, lambda j: mod(j, 12))):
        sch = Schedule(chain(first, second))
        sch.compute_inline(sch.get_block("y"))
        assert wrong_indices(sch.mod) == []


def test_computing_a_block_elsewhere_does_not_make_one() -> None:
    """There the inner division is in the binding of the block's variable."""
    workload = chain(roll, roll)
    sch = Schedule(workload)
    with pytest.raises(InstructionError, match=r"x\[\(.*TVM 0.27 computes wrongly"):
        sch.compute_at(sch.get_block("y"), sch.get_loops(sch.get_block("z"))[0])
    sch = Schedule(workload)
    outer, _ = sch.split(sch.get_loops(sch.get_block("z"))[0], [1, None])
    sch.compute_at(sch.get_block("y"), outer)
    assert wrong_indices(sch.mod) == []


def test_no_compute_location_makes_one() -> None:
    workload = chain(roll, roll)
    x = np.arange(N, dtype="float32")
    right = np.roll(np.roll(x, 1) + 1, 1) * 2
    for seed in range(4):
        mod = sl.default_space().sample(workload, seed=seed).mod
        assert wrong_indices(mod) == []
        z = np.empty_like(x)
        build_callable(mod)(x, z)
        np.testing.assert_array_equal(z, right)


def test_constant_tensors_have_no_index_to_go_wrong() -> None:
    c = te.compute((N,), lambda j: mod(j + 35, N).astype("float32"), name="c")
    z = te.compute((N,), lambda j: c[roll(j)] * 2.0, name="z")
    sch = sampled(from_te([z], "constants"), inline_constants(tensors=True))
    assert wrong_indices(sch.mod) == []


def test_a_program_with_one_is_warned_of() -> None:
    with pytest.warns(
        WrongIndexWarning, match=r"TVM 0.27 computes this index of gather wrongly: x"
    ):
        sl.tune(gather(WRONG[0]), trials=1, verify=False, finals=0)


def test_others_are_not_warned_of(recwarn: pytest.WarningsRecorder) -> None:
    warn_of_wrong_indices(chain(roll, roll))
    assert not recwarn.list
