"""Functions that differ only in the part of a tensor that they read: one for all parts.

A recurrent network unrolls into steps, and each reads its own slice of the sequence. Fused into a
step, the place of the slice makes a function of each of them. Here it moves to the calls, as views.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import relax, te
from tvm.ir import IRModule
from tvm.tirx import PrimFunc

from schedlang.tvm import program
from schedlang.tvm.relax.calls import calls
from schedlang.tvm.relax.network_program import rewrite_main, tir_call, weights_of
from schedlang.tvm.relax.slices import TensorBox, copies_in_order, of_parts, read_parts, view
from schedlang.tvm.values import dtype_of

_STEPS = 4
"""Least number of parts for which a tensor is copied so that each of them is contiguous."""


def with_shared_functions(mod: IRModule) -> IRModule:
    """Return a network in which functions that read equal parts at different places are one.

    Its calls get views of the parts. A part that is not contiguous, such as ``x[:, 3]``, is one of
    a copy with the axis of the steps first, which all of them share. A function that only copies
    its part is replaced by the view.
    """
    groups = list(_groups(mod))
    if not groups:
        return mod
    removed = {name for group in groups for name in group.parts}
    kept = {var: func for var, func in mod.functions.items() if var.name_hint not in removed}
    builder = relax.BlockBuilder(IRModule(kept, attrs=mod.attrs))
    changed = _SharedCalls(builder)
    for group in groups:
        changed.replace(group)
    made = rewrite_main(builder.get(), weights_of(mod), {}, changed.changed)
    return relax.transform.EliminateCommonSubexpr()(made)


@dataclass(frozen=True, eq=False)
class _Group:
    """Functions that become one.

    Attributes
    ----------
    function: of the parts.
    parts: what each of them reads: by its name, and the positions of the parameters.
    """

    function: PrimFunc
    parts: Mapping[str, Mapping[int, TensorBox]]


def _groups(mod: IRModule) -> Iterator[_Group]:
    functions = program.named_functions(mod)
    found: dict[int, dict[str, Mapping[int, TensorBox]]] = defaultdict(dict)
    narrowed = {}
    for name, fixed in _weight_positions(mod).items():
        read = read_parts(functions[name])
        parts = {
            place: part
            for place, part in read.items()
            if place not in fixed and (part.contiguous or _step_axis(part) is not None)
        }
        if parts:
            narrowed[name] = of_parts(functions[name], parts)
            found[tvm_ffi.structural_hash(narrowed[name])][name] = parts
    for members in found.values():
        first = next(iter(members))
        equal = {
            name: parts
            for name, parts in members.items()
            if parts.keys() == members[first].keys()
            and tvm_ffi.structural_equal(narrowed[name], narrowed[first])
        }
        # What all of them read of one tensor stays fused.
        places = [place for place in members[first] if _differ(equal, place)]
        if places and all(_is_worth_it(equal, place) for place in places):
            chosen = {
                name: {place: parts[place] for place in places} for name, parts in equal.items()
            }
            yield _Group(of_parts(functions[first], chosen[first]), chosen)


def _weight_positions(mod: IRModule) -> dict[str, set[int]]:
    """Return the functions that are called, and the positions at which a call passes a weight."""
    found: dict[str, set[int]] = defaultdict(set)
    for call in calls(mod):
        found[call.function].update(call.weights)
    return found


def _step_axis(part: TensorBox) -> int | None:
    """The axis along which a part is one step, and otherwise the whole tensor."""
    [axis, *others] = part.cut
    return axis if not others and part.extents[axis] == 1 else None


def _differ(members: Mapping[str, Mapping[int, TensorBox]], place: int) -> bool:
    return len({parts[place] for parts in members.values()}) > 1


def _is_worth_it(members: Mapping[str, Mapping[int, TensorBox]], place: int) -> bool:
    """Whether views cost nothing, or the copy replaces several that are as large together."""
    parts = {one[place] for one in members.values()}
    return all(part.contiguous for part in parts) or len(parts) >= _STEPS


class _SharedCalls:
    """The calls of a network, some of them of other functions and with views.

    ``builder`` takes the new functions.
    """

    def __init__(self, builder: relax.BlockBuilder) -> None:
        self._builder = builder
        self._made: dict[str, tuple[Any, Mapping[int, TensorBox]]] = {}
        self._transposes: dict[Any, Any] = {}

    def replace(self, group: _Group) -> None:
        """Call the function of a group in place of its members."""
        name = next(iter(group.parts))
        copies = copies_in_order(group.function)
        callee = None if copies else self._builder.add_func(group.function, name)
        for name, parts in group.parts.items():
            self._made[name] = callee, parts
            for place, part in parts.items():
                if not part.contiguous:
                    dtype = str(group.function.params[place].ty.dtype)
                    self._add_transpose(part.shape, part.cut[0], dtype)

    def _add_transpose(self, shape: tuple[int, ...], axis: int, dtype: str) -> None:
        key = (shape, axis, dtype)
        if key not in self._transposes:
            func = _axis_first(shape, axis, dtype)
            self._transposes[key] = self._builder.add_func(func, "steps")

    def changed(self, value: Any) -> Any:
        """Return a value of a binding, changed or not."""
        name, arguments = tir_call(value) or ("", [])
        if name not in self._made:
            return value
        callee, parts = self._made[name]
        output = value.ty_args[0]
        if callee is None:
            [(place, part)] = parts.items()
            shape = tuple(int(extent) for extent in output.shape)
            return self._view(arguments[place], part, shape)
        taken = [
            self._view(item, parts[place], parts[place].extents) if place in parts else item
            for place, item in enumerate(arguments)
        ]
        return relax.call_tir(callee, taken, output)

    def _view(self, tensor: Any, part: TensorBox, shape: Sequence[int]) -> Any:
        dtype = dtype_of(tensor)
        if not part.contiguous:
            axis = part.cut[0]
            callee = self._transposes[part.shape, axis, dtype]
            part = part.with_first(axis)
            tensor = relax.call_tir(callee, [tensor], relax.TensorType(part.shape, dtype))
        return view(tensor, shape, dtype, part.offset)


def _axis_first(shape: Sequence[int], axis: int, dtype: str) -> PrimFunc:
    """Return a function that moves an axis of a tensor before the others."""
    source = te.placeholder(shape, dtype, "source")
    others = [*shape[:axis], *shape[axis + 1 :]]
    made = te.compute(
        (shape[axis], *others),
        lambda first, *rest: source(*rest[:axis], first, *rest[axis:]),
        "steps",
    )
    return program.create_prim_func([source, made]).without_attr("global_symbol")
