"""What decides how exactly each output of a program is defined.

An output of indices that a comparison of values selects, such as that of an argmax, is defined by
these values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import IRModule, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize
from tvm_ffi import structural_equal, structural_map

from schedlang.tvm.data_flow.flow import Flow, Flows, Rounding, Store
from schedlang.tvm.program import MAIN, as_main, changed_block, with_root
from schedlang.tvm.values import (
    choice_of,
    dtype_of,
    holds,
    is_floating,
    is_integer,
    loads_of,
    position_of,
)

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
