"""TVM's ``s_tir.Schedule``, called through its FFI without the wrapper's per-call type checker.

The wrapper inspects signatures and type hints at every call, which costs more than most primitives.

Where a primitive replaces a statement, TVM 0.27 changes the loops and blocks around it in place,
unless a reference from elsewhere shows that another program has them too. It counts references to
loops and blocks only (``ScheduleState::Replace``). What lies between, such as the realisation of a
block or a sequence of statements, may be shared by two programs: then a statement inside has one
reference, and is changed in both. A statement with a second reference is always copied: see
``HeldProgram``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx
from tvm.ir import IRModule
from tvm.s_tir import SBlock
from tvm.s_tir.schedule import _ffi_api, _ffi_api as _ffi, schedule as _wrapper
from tvm.tirx import FloatImm

from schedlang.distributions import Categorical, ComputeLocation, PartitionedTile, PerfectTile
from schedlang.tvm.program import named_functions
from schedlang.tvm.statements import regions_of
from schedlang.tvm.values import found_in

TVMSchedule = Any
ScheduleError = _wrapper.ScheduleError

_RENDER_DETAIL = 0
_RENDER_FAST = 1


def new_schedule(mod: IRModule, *, detail: bool) -> TVMSchedule:
    """Return a schedule without a TVM trace; ``detail`` renders the program in its errors."""
    # The FFI function of TVM 0.27 swaps its 2nd and 3rd arguments: it takes (module, debug mask,
    # seed, ...). Passing TVM's own defaults in the documented order switches on all debug checks
    # and replays four times slower. Seed 1: we draw all decisions ourselves.
    level = _RENDER_DETAIL if detail else _RENDER_FAST
    return _ffi_api.ConcreteSchedule(mod, 0, 1, level, True)


def new_traced_schedule(mod: IRModule) -> TVMSchedule:
    """Return a schedule that records a TVM trace."""
    return _ffi_api.TracedSchedule(mod, 1, 0, _RENDER_DETAIL, True)


def primitive(name: str) -> Callable[..., Any]:
    """Return TVM's FFI function of a schedule primitive, such as ``ScheduleSplit``."""
    function: Callable[..., Any] = getattr(_ffi_api, name)
    return function


get_module: Callable[[TVMSchedule], IRModule] = _ffi_api.ScheduleGetMod
get_statement: Callable[[TVMSchedule, Any], Any] = _ffi_api.ScheduleGet
get_trace: Callable[[TVMSchedule], Any] = _ffi_api.ScheduleGetTrace
get_loops: Callable[[TVMSchedule, Any], Any] = _ffi_api.ScheduleGetLoops
get_block: Callable[[TVMSchedule, str, str | None], Any] = _ffi_api.ScheduleGetSBlock
get_sref: Callable[[TVMSchedule, Any], Any] = _ffi_api.ScheduleGetSRef
get_state: Callable[[TVMSchedule], Any] = _ffi_api.ScheduleGetState
get_realize: Callable[[TVMSchedule, Any], Any] = _ffi_api.GetSBlockRealize
get_consumers: Callable[[TVMSchedule, Any], Any] = _ffi_api.ScheduleGetConsumers
get_producers: Callable[[TVMSchedule, Any], Any] = _ffi_api.ScheduleGetProducers


def scope_of(sref: Any) -> Any:
    """Return the closest block around a loop or block, as TVM's reference to it."""
    sref = sref.parent
    while not isinstance(sref.stmt, SBlock):
        sref = sref.parent
    return sref


def replace(sch: TVMSchedule, sref: Any, new: Any, reused: dict[Any, Any]) -> None:
    """Put a statement in the place of a loop or block; ``reused`` maps old blocks to new ones."""
    _ffi_api.ScheduleStateReplace(get_state(sch), sref, new, reused)


def copy_schedule(sch: TVMSchedule) -> TVMSchedule | None:
    """Return a copy on which the same handles work; None where TVM 0.27 cannot: after tensorize.

    The two share statements, and each may change them in place: see ``HeldProgram``.
    """
    try:
        return _ffi_api.ScheduleCopy(sch)
    except (RuntimeError, IndexError):  # statements that tensorize removed are still in its tables
        return None


def constant_extent(sch: TVMSchedule, loop: Any) -> int | None:
    """Return the extent of a loop; None if it is not constant (producer of a strided region)."""
    value = getattr(get_statement(sch, loop).extent, "value", None)
    return None if value is None else int(value)


def loop_extent(sch: TVMSchedule, loop: Any) -> int:
    """Return the constant extent of a loop; ValueError if it is not constant."""
    extent = constant_extent(sch, loop)
    if extent is None:
        shown = get_statement(sch, loop).extent
        raise ValueError(f"the loop's extent {shown} is not a constant")
    return extent


def vectorize_part(sch: TVMSchedule, loop: Any, lanes: int) -> Any:
    """Vectorize a loop whose extent is not constant, in parts of ``lanes`` iterations.

    Returns the variable of the loop over a part.
    """
    _, inner = sch.split(loop, [None, lanes])
    sch.vectorize(inner)
    return loop_variable(sch, inner)


def loop_variable(sch: TVMSchedule, loop: Any) -> Any:
    """Return the variable of a loop."""
    return get_statement(sch, loop).loop_var


def path_to(sref: Any) -> list[Any]:
    """Return what surrounds a statement, from the inside out."""
    path = []
    while sref.parent is not None:
        sref = sref.parent
        path.append(sref)
    return path


def index_dtype(sch: TVMSchedule, block: Any) -> str:
    """Return the data type of a block's indices: of its variables, or else of what it accesses."""
    stmt = get_statement(sch, block)
    for iter_var in stmt.iter_vars:
        return str(iter_var.var.ty)
    for region in (*stmt.writes, *stmt.reads):
        for dom in region.region:
            return str(dom.min.ty)
    return "int64"


def buffer_of(sch: TVMSchedule, block: Any, role: str, index: int) -> Any:
    """Return a buffer that a block reads or writes; IndexError if ``index`` is out of range."""
    stmt = get_statement(sch, block)
    regions = regions_of(stmt, role)
    if not 0 <= index < len(regions):
        raise IndexError(
            f"block {stmt.name_hint} has {len(regions)} {role} buffers, there is no number {index}"
        )
    return regions[index].source


class HeldProgram:
    """Refers to every statement of a program, so that no schedule changes one in place.

    The program stays as it is as long as this object lives, or until it holds a later program of
    the same schedule: a schedule changes nothing but what its present program still has.

    Attributes
    ----------
    mod: the program; None before one is held.
    """

    __slots__ = ("_statements", "mod")

    def __init__(self, mod: IRModule | None = None) -> None:
        self.mod: Any = None
        self._statements: list[Any] = []
        if mod is not None:
            self.hold(mod)

    def hold(self, mod: IRModule) -> None:
        """Hold this program instead of the one before."""
        if self.mod is not None and self.mod.same_as(mod):
            return  # a schedule makes another module of one that is held
        functions = named_functions(mod).values()
        self._statements = [found_in(function.body, (tirx.For, SBlock)) for function in functions]
        self.mod = mod


# -- TVM's own sampling instructions, in a schedule that records a TVM trace ----------------------
#
# Each function takes the schedule, the distribution, the decision and the argument values of our
# instruction. It returns TVM's random variables, or ``None`` if TVM cannot sample the decision.

# TVM's tile sampling takes an int32; -1 means that the innermost factor is unbounded.
_UNBOUNDED = -1


def perfect_tile(
    sch: TVMSchedule, distribution: PerfectTile, decision: Sequence[int], loop: Any, *rest: Any
) -> list[Any] | None:
    """Sample a perfect tile; None for a single factor, as TVM requires at least two."""
    n, bound = distribution.n, distribution.max_innermost_factor or _UNBOUNDED
    if n < 2:
        return None
    return list(_ffi.ScheduleSamplePerfectTile(sch, loop, n, bound, list(decision)))


def partitioned_tile(
    sch: TVMSchedule, distribution: PartitionedTile, decision: Sequence[int], loop: Any, *rest: Any
) -> list[Any] | None:
    """Sample a partitioned tile; None for a single factor, as TVM requires at least two."""
    n, position = distribution.n, distribution.partition_pos
    if n < 2:
        return None
    return list(
        _ffi.ScheduleSamplePartitionedTile(
            sch, loop, n, position, distribution.innerpart_factor, list(decision)
        )
    )


def categorical(
    sch: TVMSchedule, distribution: Categorical, decision: int, *rest: Any
) -> list[Any]:
    """Sample one of the candidate integers."""
    candidates = list(distribution.candidates)
    probs = [FloatImm("float32", math.exp(distribution.log_prob(c))) for c in candidates]
    index = candidates.index(decision)
    return [_ffi.ScheduleSampleCategorical(sch, candidates, probs, index)]


def compute_location(
    sch: TVMSchedule, distribution: ComputeLocation, decision: int, block: Any, *rest: Any
) -> list[Any] | None:
    """Sample a compute location; None if TVM would replace the decision by another one."""
    location = _ffi.ScheduleSampleComputeLocation(sch, block, decision)
    trace = get_trace(sch)
    sampled = trace.insts[-1]
    if int(trace.get_decision(sampled)) == decision:
        return [location]
    trace.pop()
    return None
