"""One pass over an imported network, in which every weight is a known tensor.

What depends on weights only is computed (``evaluation``), batch normalisation is folded
and powers with a constant exponent become products (``binding_rewrites``). The result takes
the inputs and the tensors that are left, its parameters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import GenericConst, IRModule

from schedlang.tvm.relax.binding_rewrites import (
    Affine,
    affine_of,
    joined_views,
    moved_views,
    power_steps,
    producer,
    scaled_weights,
    use_counts,
)
from schedlang.tvm.relax.calls import numbered
from schedlang.tvm.relax.evaluation import compact, evaluate
from schedlang.tvm.relax.integer_ranges import check_of
from schedlang.tvm.relax.network_program import (
    bindings,
    fields,
    inputs_of,
    named_weights,
    operator,
    result,
    shape_of,
    substituted,
    used,
    with_arguments,
    with_main,
)


def simplify(
    mod: IRModule, parameters: Mapping[str, np.ndarray]
) -> tuple[IRModule, dict[str, np.ndarray]]:
    """Return an equal network without computations on its parameters alone.

    ``parameters`` has a value for each parameter of ``main`` after the inputs, in order. Unused
    parameters are dropped, and constants other than single numbers become parameters.
    """
    mod = relax.transform.EliminateCommonSubexpr()(mod)
    done = _Simplification(mod, parameters)
    return done.finish()


class _Simplification:
    """The state of the pass: what is known, what stays, and what stands for what."""

    def __init__(self, mod: IRModule, parameters: Mapping[str, np.ndarray]) -> None:
        self.mod = mod
        self.bound = bindings(mod)
        self.values = dict(self.bound)
        self.uses = use_counts(self.bound, result(mod))
        self.known: dict[Any, Any] = {}
        self.names: dict[Any, str] = {}
        for var, (name, value) in named_weights(mod, parameters).items():
            self.known[var], self.names[var] = value, name
        self.kept: dict[Any, Any] = {}
        self.aliases: dict[Any, Any] = {}
        self.normalised: dict[Any, Affine] = {}
        self.outputs: dict[Any, Any] = {}
        for var, value in self.bound:
            self._visit(var, value)

    def _visit(self, var: Any, value: Any) -> None:
        if operator(value) == "relax.nn.batch_norm" and not value.attrs.training:
            values = [self._value(argument) for argument in value.args[1:]]
            statistics = [item for item in values if item is not None]
            if len(statistics) == len(values):
                self.normalised[var] = affine_of(value, statistics)
                self.names[var] = self._name(value.args[1])
                return
        if isinstance(value, relax.TupleGetItem) and value.tuple_value in self.normalised:
            self._normalise(var, value)
            return
        found = evaluate(_without_check(value, self._value), self.known.get)
        if found is not None:
            self.known[var], self.names[var] = found, self._name(value)
            return
        if operator(value) == "relax.where" and self._always(value):
            value = value.args[1]
        for step, made in power_steps(var, value, self.known.get):
            for last, final in moved_views(step, made, self._binding, self._value):
                if isinstance(final, relax.Var):
                    self.aliases[last] = final
                else:
                    self.kept[last] = final

    def _binding(self, item: Any) -> Any:
        return self.kept.get(self.resolved(item))

    def _value(self, item: Any) -> Any:
        return evaluate(item, self.known.get)

    def _always(self, choice: Any) -> bool:
        """Whether a ``where`` takes its first tensor everywhere, as with a mask without gaps."""
        condition = self._value(choice.args[0])
        return (
            condition is not None
            and bool(np.all(compact(condition)))
            and shape_of(choice.args[1]) == shape_of(choice)
        )

    def _name(self, value: Any) -> str:
        """A name for a tensor computed from others: that of the first one, marked."""
        for item in used(value):
            name = self.names.get(item)
            if name:
                return name if name.endswith(" (folded)") else f"{name} (folded)"
        return ""

    # -- batch normalisation ----------------------------------------------------------------------

    def _normalise(self, var: Any, value: Any) -> None:
        """``var`` is one of the results of a batch normalisation."""
        call = self.values[value.tuple_value]
        if int(value.index):  # the statistics, which inference does not change
            argument = call.args[2 + int(value.index)]
            self.known[var], self.names[var] = evaluate(argument, self.known.get), self._name(call)
            return
        if value.tuple_value in self.outputs:
            self.aliases[var] = self.outputs[value.tuple_value]
            return
        self.outputs[value.tuple_value] = var
        affine = self.normalised[value.tuple_value]
        if self.uses.get(call.args[0]) == 1 and self._fold(var, call.args[0], affine):
            return
        rank, dtype = len(shape_of(call.args[0])), str(value.ty.dtype)
        name = self.names[value.tuple_value]
        scale = self._constant(affine.shaped(affine.scale, rank, dtype), name)
        shift = self._constant(affine.shaped(affine.shift, rank, dtype), name)
        scaled = relax.Var("scaled", var.ty)
        self.kept[scaled] = relax.op.multiply(call.args[0], scale)
        self.kept[var] = relax.op.add(scaled, shift)

    def _fold(self, var: Any, data: Any, affine: Affine) -> bool:
        """Scale the convolution that computes ``data``; False if there is none to scale."""
        found = producer(self.resolved(data), affine.axis, self.kept, self.uses)
        if found is None:
            return False
        call = self.kept[found.convolution]
        weights = evaluate(call.args[1], self.known.get)
        if weights is None:
            return False
        rank, dtype = len(shape_of(found.convolution)), weights.dtype
        shift = affine.shaped(affine.shift, rank, np.float64)
        if found.bias is not None:
            bias = evaluate(found.bias[1], self.known.get)
            if bias is None or np.broadcast_shapes(bias.shape, shift.shape) != shift.shape:
                return False
            shift = shift + bias * affine.shaped(affine.scale, rank, np.float64)
        name = self._name(call.args[1])
        scaled = self._constant(scaled_weights(call, weights, affine.scale), name)
        self.kept[found.convolution] = with_arguments(call, [call.args[0], scaled])
        bias_name = f"{name.removesuffix(' (folded)')} bias (folded)"
        added = relax.op.add(found.convolution, self._constant(shift.astype(dtype), bias_name))
        if found.bias is None:
            self.kept[var] = added
        else:
            self.kept[found.bias[0]] = added
            self.aliases[var] = found.bias[0]
        return True

    def _constant(self, value: np.ndarray, name: str) -> Any:
        var = relax.Var("folded", relax.TensorType(value.shape, str(value.dtype)))
        self.known[var], self.names[var] = value, name
        return var

    # -- the new module ---------------------------------------------------------------------------

    def finish(self) -> tuple[IRModule, dict[str, np.ndarray]]:
        returned = relax.Tuple(fields(self.mod))
        for var, value in self.kept.items():
            self.kept[var] = joined_views(value, self._binding)
        needed = self._needed(returned)
        left = [(var, value) for var, value in self.kept.items() if var in needed]
        writer = _Rebuilder(self)
        for value in [*(value for _, value in left), returned]:
            for item in used(value):
                writer.prepare(item)

        def write(builder: Any) -> Any:
            for var, value in left:
                made = substituted(value, lambda item: writer.expression(item, builder))
                writer.made[var] = builder.emit(made)
            return substituted(returned, lambda item: writer.expression(item, builder))

        return with_main(self.mod, writer.variables, write), writer.parameters

    def _needed(self, returned: Any) -> set[Any]:
        """The variables whose bindings the result depends on."""
        needed: set[Any] = set()
        pending = [self.resolved(item) for item in used(returned)]
        while pending:
            var = pending.pop()
            if var not in needed and var in self.kept:
                needed.add(var)
                pending += [self.resolved(item) for item in used(self.kept[var])]
        return needed

    def resolved(self, item: Any) -> Any:
        """Return what stands for a variable."""
        while item in self.aliases and item not in self.known:
            item = self.aliases[item]
        return item


def _without_check(value: Any, known: Callable[[Any], Any]) -> Any:
    """Return what is checked in place of a check that known integers pass."""
    check = check_of(value)
    if check is None or check.bounds is None:
        return value
    found, (least, most) = known(check.item), check.bounds
    passes = found is not None and np.size(found) and least <= np.min(found)
    return check.item if passes and np.max(found) <= most else value


class _Rebuilder:
    """Expressions of the new function for the variables and constants of the old one."""

    def __init__(self, state: _Simplification) -> None:
        self.state = state
        self.made: dict[Any, Any] = {var: var for var in inputs_of(state.mod)}
        self.parameters: dict[str, np.ndarray] = {}
        self.variables: list[Any] = []
        self._chosen: dict[Any, Any] = {}

    def prepare(self, item: Any) -> None:
        """Make a known tensor a parameter, unless it is a single number."""
        item = self.state.resolved(item)
        if item in self._chosen:
            return
        if isinstance(item, GenericConst):
            self._chosen[item] = self._tensor(item.value.numpy(), "")
        elif item in self.state.known:
            value, name = self.state.known[item], self.state.names.get(item, "")
            if isinstance(value, tuple):
                self._chosen[item] = [self._tensor(part, name) for part in value]
            else:
                self._chosen[item] = self._tensor(value, name)

    def _tensor(self, value: np.ndarray, name: str) -> tuple[Any, tuple[int, ...]]:
        """A variable or a constant, and the shape to broadcast it to."""
        small = np.ascontiguousarray(compact(np.asarray(value))).reshape(compact(value).shape)
        if small.size == 1:
            return relax.const(small.reshape(()), str(small.dtype)), value.shape
        name = numbered(name or "constant", self.parameters, before=" ")
        hint = re.sub(r"^(?=\d)", "_", re.sub(r"\W+", "_", name).strip("_"))
        variable = relax.Var(hint, relax.TensorType(small.shape, str(small.dtype)))
        self.parameters[name] = small
        self.variables.append(variable)
        return variable, value.shape

    def expression(self, item: Any, builder: Any) -> Any:
        """Return the expression of the new function that stands for an item of the old one."""
        item = self.state.resolved(item)
        if item not in self.made:
            chosen = self._chosen[item]
            if isinstance(chosen, list):
                self.made[item] = relax.Tuple([_broadcast(part, builder) for part in chosen])
            else:
                self.made[item] = _broadcast(chosen, builder)
        return self.made[item]


def _broadcast(chosen: tuple[Any, tuple[int, ...]], builder: Any) -> Any:
    expression, shape = chosen
    if shape_of(expression) == shape:
        return expression
    return builder.emit(relax.op.broadcast_to(expression, shape))
