"""TVM's primitives that make loops concurrent, for loops whose iterations are proven apart.

TVM looks at the kinds of blocks' variables. It does not see what iterations pass to each other
through two blocks or another name of a tensor, nor that they store the same elements.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tvm.s_tir.schedule import _ffi_api as _ffi

from schedlang.tvm.analysis.concurrency import has_independent_iterations, may_run_in_threads
from schedlang.tvm.analysis.races.concurrent import COOPERATING, PARALLEL, THREADS, VECTORIZED
from schedlang.tvm.analysis.races.determinism import fault_of
from schedlang.tvm.schedule import TVMSchedule, forms, get_module, get_statement
from schedlang.tvm.schedule import primitives as _primitives

_REMEDY = "leave it serial, or let each iteration store elements of its own"


def parallel(sch: TVMSchedule, loop: Any) -> None:
    """Call ScheduleParallel; ValueError where iterations are not proven apart."""
    if not has_independent_iterations(sch, loop):
        _require(sch, loop, PARALLEL, _ffi.ScheduleParallel)
    _ffi.ScheduleParallel(sch, loop)


def vectorize(sch: TVMSchedule, loop: Any) -> None:
    """Call ScheduleVectorize; ValueError where lanes are not proven apart."""
    if not has_independent_iterations(sch, loop):
        _require(sch, loop, VECTORIZED, forms.vectorize)
    forms.vectorize(sch, loop)


def bind(sch: TVMSchedule, loop: Any, thread_axis: str) -> None:
    """Call ScheduleBind; ValueError where what threads store is not proven apart."""
    if not may_run_in_threads(sch, loop, cooperating=thread_axis.startswith(COOPERATING)):
        apply = partial(_primitives.bind, thread_axis=thread_axis)
        _require(sch, loop, THREADS, apply, thread_axis)
    _primitives.bind(sch, loop, thread_axis)


def _require(
    sch: TVMSchedule,
    loop: Any,
    kind: int,
    apply: Callable[[TVMSchedule, Any], None],
    axis: str = "",
) -> None:
    """Raise ValueError where iterations are not proven apart, or what ``apply`` raises."""
    fault = fault_of(get_module(sch), get_statement(sch, loop).loop_var, kind, axis)
    if fault is not None:
        apply(sch.copy(), loop)  # what TVM says is more precise
        raise ValueError(f"{fault}; {_REMEDY}")
