"""Layouts of an imported network: channels last in place of PyTorch's and ONNX's channels first.

This makes a network with channels last inside from one with channels first. ``axis_orders`` has the
operators that work in any order of axes, ``channels_last_convolutions`` the convolutions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from tvm import relax
from tvm.ir import GenericConst, IRModule

from schedlang.tvm.relax import axis_orders as orders, channels_last_convolutions as convolutions
from schedlang.tvm.relax.axis_orders import (
    RULES,
    Copies,
    Order,
    Site,
    concat,
    elementwise,
    transposed,
)
from schedlang.tvm.relax.binding_rewrites import use_counts
from schedlang.tvm.relax.network_program import (
    MAIN,
    bindings,
    operator,
    result,
    shape_of,
    substituted,
    weights_of,
    with_arguments,
    with_main,
)

_VIEWS = ("relax.reshape", "relax.squeeze", "relax.expand_dims", "relax.flatten")


def channels_last(mod: IRModule) -> IRModule:
    """Return an equal network whose convolutions have their channels last.

    ``mod`` is as ``simplify`` returns it. Weights are permuted by operators that ``simplify``
    computes. A network without convolutions stays as it is.
    """
    weights, bound = set(weights_of(mod)), bindings(mod)
    if not any(convolutions.converts(value, weights) for _, value in bound):
        return mod

    def write(builder: Any) -> Any:
        conversion = _Conversion(mod, builder)
        for var, value in bound:
            conversion.visit(var, value)
        return conversion.own(result(mod))

    return with_main(mod, weights_of(mod), write)


class _Conversion:
    """The state of the pass: the bindings of the old function, and what the new one has of them."""

    def __init__(self, mod: IRModule, builder: Any) -> None:
        self.builder = builder
        self.values = dict(bindings(mod))
        self.uses = use_counts(list(self.values.items()), result(mod))
        self.weights = set(weights_of(mod))
        self.copies = Copies(builder)
        self.others: dict[Any, Any] = {}  # what is no tensor
        for param in mod[MAIN].params:
            self.copies.add(param, orders.identity(len(shape_of(param))), param)

    def visit(self, var: Any, value: Any) -> None:
        """Compute the value of a binding in the new function."""
        name = operator(value)
        done = False
        if isinstance(value, relax.Tuple):
            for place, field in enumerate(value.fields):
                self.copies.share((var, place), field)
        elif isinstance(value, relax.TupleGetItem):
            done = self.copies.share(var, (value.tuple_value, int(value.index)))
        elif isinstance(value, relax.Var):
            done = self.copies.share(var, value)
        elif convolutions.converts(value, self.weights):
            done = self._convolve(var, value)
        elif name == "relax.permute_dims":
            done = self._transpose(var, value)
        elif name in _VIEWS:
            done = self._view(var, value)
        elif name == "relax.matmul":
            done = self._dense(var, value)
        elif name in RULES:
            done = self._follow(var, value)
        if not done:
            self._add(var, None, self.builder.emit(self.own(value)))

    def _add(self, var: Any, order: Order | None, value: Any) -> bool:
        """Note the value of a variable; tensors that an operator returns together, one by one."""
        kind = var.ty
        if isinstance(kind, relax.TupleType) and order is not None:
            for place in range(len(kind.fields)):
                part = self.builder.emit(relax.TupleGetItem(value, place))
                self.copies.add((var, place), order, part)
        elif isinstance(kind, relax.TensorType):
            self.copies.add(var, order or orders.identity(len(shape_of(var))), value)
        else:
            self.others[var] = value
        return True

    # -- what an operator reads -------------------------------------------------------------------

    def own(self, expr: Any) -> Any:
        """Return an expression of the old function, with its tensors as they were there."""
        return substituted(expr, self._own)

    def _own(self, item: Any) -> Any:
        if isinstance(item, GenericConst):
            return item
        if isinstance(item.ty, relax.TupleType) and item not in self.others:
            places = range(len(item.ty.fields))
            return relax.Tuple([self.copies.get((item, place)) for place in places])
        return self.others[item] if item in self.others else self.copies.get(item)

    def _tensor(self, argument: Any, order: Order) -> Any:
        """Return an argument in an order; with axes of extent 1 in front if it has fewer."""
        if not isinstance(argument.ty, relax.TensorType) or not shape_of(argument):
            return self.own(argument)
        shape = shape_of(argument)
        if isinstance(argument, relax.Var) and len(shape) == len(order):
            return self.copies.get(argument, order)
        full = (*[1] * (len(order) - len(shape)), *shape)
        whole = self.builder.emit(relax.op.reshape(self.own(argument), full))
        return self.builder.emit(transposed(whole, order))

    def _order(self, arguments: Sequence[Any]) -> Order | None:
        """The order in which there is a copy of one of some tensors: of one with the most axes."""
        ranks = [len(shape_of(item)) for item in arguments if isinstance(item.ty, relax.TensorType)]
        for item in arguments:
            for order in self.copies.orders(item):
                if len(order) == max(ranks):
                    return order
        return None

    # -- operators --------------------------------------------------------------------------------

    def _convolve(self, var: Any, call: Any) -> bool:
        order = orders.channels_last(len(shape_of(call)))
        data, own = call.args[0], False
        if not self.copies.there(data, order) and not self.copies.orders(data):
            # The copy with zeros around it, which the convolution makes anyway, is transposed.
            own = self.uses[data] == 1 and orders.moves_data(shape_of(data), order)
        value = self.copies.get(data, None if own else order)
        weight = self.own(call.args[1])
        made = convolutions.channels_last(call, value, own, weight, self.builder)
        return self._add(var, order, self.builder.emit(made))

    def _transpose(self, var: Any, call: Any) -> bool:
        """A copy of what is transposed is one of the result too, in another order."""
        source = call.args[0]
        rank = len(shape_of(var))
        axes = tuple(int(axis) % rank for axis in call.attrs.axes or reversed(range(rank)))
        found = self.copies.orders(source)
        last, own = orders.channels_last(rank), orders.identity(rank)
        if rank > 2 and not found and orders.between(last, own) == axes:
            found = [own]
        for order in found:
            value = self.copies.get(source, order)
            self.copies.add(var, orders.of_transposed(order, axes), value)
        return bool(found)

    def _view(self, var: Any, call: Any) -> bool:
        source = call.args[0]
        before, after = shape_of(source), shape_of(var)
        for order in self.copies.orders(source):
            needed, made = orders.of_reshaped(order, before, after)
            if needed != orders.identity(len(needed)):
                shape = orders.reordered(after, made)
                value = relax.op.reshape(self.copies.get(source, needed), shape)
                return self._add(var, made, self.builder.emit(value))
        return False

    def _dense(self, var: Any, call: Any) -> bool:
        """A dense layer on an image as one row: the rows of its weights change their order."""
        x, weight = call.args
        view: Any = self.values.get(x)
        if operator(view) not in _VIEWS or weight not in self.weights:
            return False
        source = view.args[0]
        shape = shape_of(source)
        found = [order for order in self.copies.orders(source) if order[0] == 0]
        if not found or shape_of(x) != (shape[0], math.prod(shape[1:])):
            return False
        order = found[0]
        rows = relax.op.reshape(self.own(weight), (*shape[1:], shape_of(weight)[1]))
        axes = [*(axis - 1 for axis in order[1:]), len(order) - 1]
        turned = relax.op.permute_dims(self.builder.emit(rows), axes)
        matrix = relax.op.reshape(self.builder.emit(turned), shape_of(weight))
        flat = relax.op.reshape(self.copies.get(source, order), shape_of(x))
        arguments = [self.builder.emit(flat), self.builder.emit(matrix)]
        return self._add(var, None, self.builder.emit(with_arguments(call, arguments)))

    def _follow(self, var: Any, call: Any) -> bool:
        """An operator that can work in the order in which its tensors are there."""
        rule = RULES[operator(call)]
        if rule is concat:
            whole = call.args[0]
            whole = self.values.get(whole, whole)
            if not isinstance(whole, relax.Tuple):
                return False
            call = with_arguments(call, [whole])
            order = self._order(list(whole.fields))
        else:
            order = self._order(list(call.args) if rule is elementwise else [call.args[0]])
        if order is None:
            return False
        made = rule(Site(call, order, partial(self._tensor, order=order), self.own))
        if made is None:
            return False
        return self._add(var, made[1], self.builder.emit(made[0]))
