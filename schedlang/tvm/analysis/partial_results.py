"""Programs that compute a part of another one's results.

The outermost loops are cut to windows, or a search looks only at the indices that it is asked for.
The program is not scheduled for this, so that what the part computes is what the whole one does.
Only where an intermediate result would cost too much is its block moved below the loops that are
cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import Call, IRModule, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize, Schedule
from tvm_ffi import structural_equal, structural_map

from schedlang.tvm.analysis.flow import Flow, Flows, Rounding, Store
from schedlang.tvm.program import MAIN, as_main, changed_block, with_root, with_root_body
from schedlang.tvm.schedule import ScheduleError
from schedlang.tvm.statements import (
    bindings_of,
    changed_loop,
    is_spatial,
    nests_of,
    parts_of,
    regions_in,
    sequence,
)
from schedlang.tvm.values import (
    choice_of,
    dtype_of,
    extent_of,
    found_in,
    holds,
    is_floating,
    is_integer,
    loads_of,
    position_of,
    substituted,
)

# At the start, in the middle and at the end of a loop.
_WINDOWS = 3
# An operation that is a call (an exponential, a branch) takes as long as this many others.
_CALL_WEIGHT = 8


def count_steps(mod: IRModule) -> float:
    """Estimate how many simple operations one call executes: iterations, weighted by calls.

    A loop whose length depends on data counts as one iteration.
    """
    return sum(map(_cost, _nests(mod[MAIN])))


def window_of(mod: IRModule, steps: float) -> IRModule | None:
    """Return a program that computes some elements of each output, in at most ``steps`` steps.

    Loops that give independent elements run over three windows, at their start, middle and end; the
    other elements of the outputs are not written. None where no such program is small enough.
    """
    found = _windowed(mod, steps)
    for moved in () if found is not None else _producers_moved(mod):
        found = _windowed(moved, steps)
        if found is not None:
            break
    return found


def _windowed(mod: IRModule, steps: float) -> IRModule | None:
    func = mod[MAIN]
    nests = _nests(func)
    read, written = (
        [frozenset(regions_in(nest, role)) for nest in nests] for role in ("read", "write")
    )
    outputs = set(func.params)
    free = [
        place
        for place, own in enumerate(written)
        if own & outputs
        and not any(
            own & (read[other] | written[other]) for other in range(len(nests)) if other != place
        )
    ]
    left = steps - sum(_cost(nest) for place, nest in enumerate(nests) if place not in free)
    if not free or left <= 0:
        return None
    for place in free:
        nests[place] = _cut(nests[place], left / len(free))
    if sum(map(_cost, nests)) > steps:
        return None
    return as_main(with_root_body(func, sequence(nests)))


def _nests(func: tirx.PrimFunc) -> list[Any]:
    """Return the statements of the root block."""
    return nests_of(func) if isinstance(func.body, SBlockRealize) else []


def _cost(stmt: Any) -> float:
    """Estimate the steps of a statement."""
    if isinstance(stmt, tirx.For):
        return max(extent_of(stmt.extent, 1), 0) * _cost(stmt.body)
    if isinstance(stmt, tirx.IfThenElse):
        return max(map(_cost, parts_of(stmt)))
    if isinstance(stmt, SBlockRealize):
        return _cost(stmt.block.body)
    if parts := parts_of(stmt):
        return sum(map(_cost, parts))
    return 1.0 + _CALL_WEIGHT * len(found_in(stmt, Call))


def _cut(nest: Any, steps: float) -> Any:
    """Cut the loops of a nest to windows, from the outermost, until it takes ``steps`` steps."""
    cost = _cost(nest)
    if cost <= steps or not isinstance(nest, tirx.For):
        return nest
    extent = extent_of(nest.extent, 0)
    width = max(int(extent * steps / cost / _WINDOWS), 1)
    loop = nest
    if _WINDOWS * width < extent and _is_spatial(nest):
        loop = _windows(nest, extent, width)
    elif not (_is_spatial(nest) or extent == 1):
        return nest
    inner = _cut(loop.body, steps / max(int(loop.extent.value), 1))
    return changed_loop(loop, inner)


def _windows(loop: Any, extent: int, width: int) -> Any:
    """Let a loop run over windows of ``width`` iterations."""
    variable = tirx.Var(loop.loop_var.name, loop.loop_var.ty)
    apart = -(-(extent - width) // (_WINDOWS - 1))
    first = tirx.min(tirx.floordiv(variable, width) * apart, extent - width)
    value = first + tirx.floormod(variable, width) + loop.min
    body = substituted(loop.body, {loop.loop_var: value})
    length = tirx.IntImm(loop.extent.ty, _WINDOWS * width)
    start = tirx.IntImm(loop.extent.ty, 0)
    return changed_loop(loop, body, variable=variable, start=start, extent=length)


def _is_spatial(loop: Any) -> bool:
    """Whether each block below uses the loop for spatial variables only."""
    if not isinstance(loop.extent, tirx.IntImm) or loop.step is not None:
        return False

    def uses(value: Any) -> bool:
        return holds(found_in(value, tirx.Var), loop.loop_var)

    return not any(
        uses(realize.block.body)
        or any(uses(value) for axis, value in bindings_of(realize) if not is_spatial(axis))
        for realize in found_in(loop.body, SBlockRealize)
    )


def _producers_moved(mod: IRModule) -> Iterator[IRModule]:
    """Yield programs with the blocks of intermediate results below a loop of the last block."""
    schedule = Schedule(mod)
    names = [str(block.name_hint) for block in found_in(mod[MAIN].body, SBlock)]
    *producers, last = names[:-1] or [""]  # the root is the last
    if not producers or len(set(names)) < len(names):
        return
    for depth in range(len(schedule.get_loops(schedule.get_sblock(last)))):
        trial = schedule.copy()
        loop = trial.get_loops(trial.get_sblock(last))[depth]
        for name in reversed(producers):
            try:
                trial.compute_at(trial.get_sblock(name), loop, preserve_unit_loops=True)
            except ScheduleError:  # it stays where it is
                continue
        yield trial.mod


# -- What decides how exactly each output of a program is defined ---------------------------------
#
# An output of indices that a comparison of values selects, such as that of an argmax, is defined by
# these values.

# An output may be a copy of a copy of the indices, and so on.
_DEEPEST = 8


@dataclass(frozen=True, eq=False)
class SelectionProgram:
    """A program that tells which values given indices select.

    It is the unscheduled program, but its search only looks at the indices that it is asked for:
    the last argument holds one for each element. Its index is that one if the search can give it,
    and its value what is found there.

    Attributes
    ----------
    program: its first arguments are those of the unscheduled program.
    args: shape and element type of each of its arguments.
    index, value: positions of the arguments with the indices and the values.
    flow: what flows into the values, besides the search.
    """

    program: IRModule
    args: tuple[tuple[tuple[int, ...], str], ...]
    index: int
    value: int
    flow: Flow


def selection_of(func: tirx.PrimFunc, flows: Flows, output: Any) -> SelectionProgram | None:
    """Return what the indices in ``output`` select; None if it holds none, or none that are known.

    Known are indices that are stored after a comparison with the value they belong to, which the
    same block stores: of a tuple reduction, or below an ``if``; and copies of them. Where equal
    values leave no choice, as the comparison looks at the indices too, and none of it is rounded,
    the indices are exact.
    """
    if not isinstance(func.body, SBlockRealize) or not is_integer(output):
        return None
    stores = flows.stores
    index = _copied_from(flows, output)
    for store in stores.of(index):
        chosen = _choice(flows, store)
        if chosen is None or not store.blocks:
            continue
        condition, candidate = chosen
        loaded = {stores.tensor(load.source) for load in loads_of(condition)}
        values = loaded & _written_beside(flows, store)
        mentions = {stores.tensor(load.source) for load in loads_of(candidate)}
        if len(values) != 1 or mentions & {index, *values}:
            continue
        if index in loaded and flows.errors.of(condition) == Rounding.EXACT:
            return None
        (value,) = values
        flow = flows.into(value, without=store.blocks[-1])
        return _asking(func, store, candidate, index, value, flow)
    return None


def _copied_from(flows: Flows, output: Any) -> Any:
    """Return the tensor that ``output`` is an elementwise copy of, in the same order."""
    for _ in range(_DEEPEST):
        stores = flows.stores.of(output)
        if len(stores) != 1 or stores[0].read:
            break
        value = flows.stores.resolved(stores[0].value)
        while isinstance(value, tirx.Cast) and not is_floating(value.value):
            value = value.value
        if not isinstance(value, TensorLoad) or is_floating(value):
            break
        source = flows.stores.tensor(value.source)
        kept, read = _moving(output, stores[0].indices), _moving(source, value.indices)
        if not structural_equal(kept, read) or _extents(output) != _extents(source):
            break
        output = source
    return output


def _moving(buffer: Any, indices: Any) -> list[Any]:
    """Return the indices of the axes that have more than one element."""
    return [index for index, extent in zip(indices, _shape(buffer), strict=True) if extent > 1]


def _extents(buffer: Any) -> list[int]:
    return [extent for extent in _shape(buffer) if extent > 1]


def _shape(buffer: Any) -> tuple[int, ...]:
    return tuple(int(extent) for extent in buffer.ty.shape)


def _choice(flows: Flows, store: Store) -> tuple[Any, Any] | None:
    """Return the condition of a store that keeps or replaces an element, and the new value."""
    value = flows.stores.resolved(store.value)
    parts = choice_of(value)
    if parts is not None:
        condition, *cases = parts
        new = [case for case in cases if not _is_element(flows, case, store)]
        return (condition, new[0]) if len(new) == 1 else None
    condition = flows.stores.resolved(store.conditions[-1]) if store.conditions else None
    if condition is None or dtype_of(condition) != "bool" or not loads_of(condition):
        return None
    return condition, value


def _is_element(flows: Flows, value: Any, store: Store) -> bool:
    """Whether a value is what the element that is stored held before."""
    return flows.stores.is_element(value, store.buffer) and bool(
        structural_equal(list(value.indices), list(store.indices))
    )


def _written_beside(flows: Flows, store: Store) -> set[Any]:
    """Return the tensors that the block of ``store`` writes from others, besides its own."""
    return {
        other.buffer
        for other in flows.stores.stores
        if other.blocks
        and other.blocks[-1].same_as(store.blocks[-1])
        and not other.buffer.same_as(store.buffer)
        and loads_of(flows.stores.resolved(other.value))
    }


def _asking(
    func: tirx.PrimFunc, store: Store, candidate: Any, index: Any, value: Any, flow: Flow
) -> SelectionProgram:
    """Let the search look at those candidates only that the new last argument names."""
    # A region of a tensor without axes cannot be written down.
    asked = tirx.decl_buffer(_shape(index) or (1,), dtype_of(index), name="asked")
    wanted = tirx.EQ(candidate, tirx.BufferLoad(asked, list(store.indices) or [0]))
    parameters = list(func.params)
    shown = [it for it in (index, value) if not holds(parameters, it)]
    parameters += [*shown, asked]
    name = str(store.blocks[-1].name_hint)

    def limited(block: Any) -> Any:
        if str(block.name_hint) != name:
            return block
        return changed_block(block, body=tirx.IfThenElse(wanted, block.body, None), reads=[asked])

    root = func.body.block
    left = [it for it in root.alloc_buffers if not holds(shown, it)]
    body = structural_map(root.body, (SBlock, limited))
    changed = with_root(func, changed_block(root, body=body, allocated=left))
    program = tirx.PrimFunc(parameters, changed.body, func.ret_type, func.attrs)
    return SelectionProgram(
        as_main(program),
        tuple((_shape(it), dtype_of(it)) for it in parameters),
        position_of(index, parameters),
        position_of(value, parameters),
        flow,
    )


@dataclass(frozen=True)
class OutputFlow:
    """What flows into an argument that a program writes.

    Attributes
    ----------
    flow: the types, sums and rounding errors on the way.
    selection: which values an output of indices selects; None for any other output.
    """

    flow: Flow
    selection: SelectionProgram | None = None


def output_flows(mod: IRModule) -> dict[int, OutputFlow]:
    """Return what flows into each argument that an unscheduled program writes, by position."""
    func = mod[MAIN]
    flows = Flows(func)
    return {
        position: OutputFlow(flows.into(parameter), selection_of(func, flows, parameter))
        for position, parameter in enumerate(func.params)
        if parameter in flows.written
    }


def never_rounded(mod: IRModule) -> frozenset[int]:
    """Return the positions of floating-point arguments whose values no operation rounds.

    No right program differs in an output that they flow into.
    """
    func = mod[MAIN]
    flows = Flows(func)
    rounded: set[Any] = set()
    for parameter in func.params:
        if parameter in flows.written and flows.errors.of_tensor(parameter):
            rounded |= flows.stores.behind(parameter)
    return frozenset(
        position
        for position, parameter in enumerate(func.params)
        if isinstance(parameter.ty, tirx.BufferType)
        and is_floating(parameter)
        and parameter not in rounded
    )
