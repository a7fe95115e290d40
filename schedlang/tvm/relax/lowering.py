"""From Relax operators to a module of tensor functions and their calls.

``whole_function`` then makes one function of them all, which is scheduled as a whole.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm_ffi
from tvm import relax, te, tirx, transform
from tvm.ir import IRModule
from tvm.tirx import PrimFunc

from schedlang.errors import NetworkError
from schedlang.tvm import program
from schedlang.tvm.errors import reason_of
from schedlang.tvm.relax.calls import calls, with_short_names, with_weights_marked
from schedlang.tvm.relax.channels_last import channels_last
from schedlang.tvm.relax.integer_checks import bounded, names_of_checks, with_checks
from schedlang.tvm.relax.legalisation import legalised
from schedlang.tvm.relax.low_bit_weights import with_low_bit_weights
from schedlang.tvm.relax.network_program import (
    BUILDING,
    MAIN,
    bindings,
    fields,
    inputs_of,
    rewrite_main,
    substituted,
    tir_call,
    weights_of,
)
from schedlang.tvm.relax.simplify import simplify
from schedlang.tvm.relax.slices import TensorBox, copies_in_order, of_parts, read_parts, view
from schedlang.tvm.values import dtype_of

CHANNELS_LAST = "channels_last"
LAYOUTS = (CHANNELS_LAST, "as_is")
"""Where the channels of images are inside a network."""


def lower(
    mod: IRModule, parameters: Mapping[str, np.ndarray], layout: str
) -> tuple[IRModule, dict[str, np.ndarray]]:
    """Return the network as tensor functions, fused, and the calls of them in ``main``.

    ``parameters`` are the values of the parameters of ``main`` after the inputs. Constants become
    parameters. Tensor functions say which of their parameters are weights in every call.
    ``layout`` is one of ``LAYOUTS``.
    """
    mod, parameters = simplify(mod, parameters)
    if layout == CHANNELS_LAST:
        mod, parameters = simplify(channels_last(mod), parameters)
    mod, parameters = with_low_bit_weights(mod, parameters)
    mod = _run(
        with_checks(mod, parameters),
        relax.transform.DecomposeOpsForInference(),
        relax.transform.CanonicalizeBindings(),
        legalised(),
        bounded(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FoldConstant(),
    )
    mod, parameters = simplify(mod, parameters)
    mod = _run(
        mod,
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
        relax.transform.DeadCodeElimination(),
    )
    mod = with_short_names(with_shared_functions(narrowed(mod)))
    return with_weights_marked(mod), parameters


def _run(mod: IRModule, *passes: transform.Pass) -> IRModule:
    try:
        return transform.Sequential(list(passes))(mod)
    except Exception as error:  # TVM raises errors of every type
        raise NetworkError(f"TVM cannot lower the network: {reason_of(error)}") from error


def narrowed(mod: IRModule) -> IRModule:
    """Return a module whose tensor functions compute indices as int32, like those of workloads.

    Relax writes shapes as int64. Functions with int64 data, or with a tensor of more elements than
    int32 can count, stay as they are.
    """
    functions = program.named_functions(mod)
    return program.replace_functions(
        mod, {name: _narrow(func) for name, func in functions.items() if _is_narrow(func)}
    )


def _narrow(func: tirx.PrimFunc) -> tirx.PrimFunc:
    alone = IRModule({program.MAIN: func})
    return tirx.transform.ForceNarrowIndexToInt32()(alone)[program.MAIN]


def _is_narrow(func: tirx.PrimFunc) -> bool:
    shapes = [shape for _, shape in program.intermediate_shapes(func)]
    for parameter in program.parameters(func):
        if parameter.dtype in ("int64", "uint64"):
            return False
        shapes.append(parameter.shape)
    if program.allocates(func, ("int64", "uint64")):
        return False
    return all(_countable(shape) for shape in shapes)


def _countable(shape: Sequence[int | str]) -> bool:
    """Whether int32 can count the elements."""
    extents = [extent for extent in shape if isinstance(extent, int)]
    return len(extents) == len(shape) and math.prod(extents) < 2**31


# -- All tensor functions of a network in one -----------------------------------------------------

_WHOLE, _ENTRY = "whole", "entry"


def whole_function(mod: IRModule) -> PrimFunc:
    """Return one tensor function that computes what ``main`` computes, from its inputs.

    ::

        lv = call_tir(transpose, b); lv1 = call_tir(matmul, (a, lv))
        ->  for i, j: T_transpose; for i, j, k: matmul

    ``mod`` is a network as ``lower`` returns it, without weights and with one output. Tensors
    between its functions become buffers of the function, so that a schedule may fuse their loops.
    It checks no indices: those that are out of range are clamped.
    Raises ``NetworkError`` where TVM cannot merge the functions.
    """
    try:
        merged = relax.transform.FuseTIR()(_as_primitive(mod))
    except Exception as error:  # TVM raises errors of every type
        raise NetworkError(f"its functions cannot be merged: {reason_of(error)}") from error
    return program.named_functions(narrowed(merged))[_WHOLE]


def _as_primitive(mod: IRModule) -> IRModule:
    """Return a module whose ``main`` is a primitive function, which an entry calls."""
    builder = relax.BlockBuilder(mod)
    checks = names_of_checks(mod)
    made: dict[Any, Any] = {one: _same(one) for one in inputs_of(mod)}

    def current(item: Any) -> Any:
        return made.get(item, item)

    parameters = list(made.values())
    with BUILDING, builder.function(_WHOLE, parameters, {"Primitive": True}, private=True):
        with builder.dataflow():
            for var, value in bindings(mod):
                called, given = tir_call(value) or ("", [])
                if called in checks:
                    made[var] = current(given[0])
                elif not isinstance(value, relax.Tuple):
                    made[var] = builder.emit(substituted(value, current))
            [output] = fields(mod)
            result = builder.emit_output(substituted(output, current))
        builder.emit_func_output(result)
    made_so_far = builder.get()
    whole = made_so_far.get_global_var(_WHOLE)
    builder = relax.BlockBuilder(made_so_far)
    arguments = [_same(one) for one in inputs_of(mod)]
    with BUILDING, builder.function(_ENTRY, arguments):
        with builder.dataflow():
            result = builder.emit_output(relax.Call(whole, arguments))
        builder.emit_func_output(result)
    final = builder.get()
    del final[final.get_global_var(MAIN)]
    return final


def _same(var: Any) -> Any:
    return relax.Var(str(var.name), var.ty)


# -- Functions that differ only in the part of a tensor that they read: one for all parts ---------
#
# A recurrent network unrolls into steps, and each reads its own slice of the sequence. Fused into a
# step, the place of the slice makes a function of each of them. Here it moves to the calls, as
# views.

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
