"""Orders of the axes of a tensor, and the operators that work in any order of them.

``order[place]`` is the axis of the network's own tensor that stands at ``place`` of a copy: the
copy is ``permute_dims(tensor, order)``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import relax, tirx
from tvm.ir import make_node

from schedlang.tvm.relax.network_program import shape_of

# -- The tensors of a network in several orders of axes -------------------------------------------

Order = tuple[int, ...]


def identity(rank: int) -> Order:
    """Return the order of the tensor itself."""
    return tuple(range(rank))


def channels_last(rank: int) -> Order:
    """``4 -> (0, 2, 3, 1)``: the axis after the batch becomes the last one."""
    return (0, *range(2, rank), 1)


def reordered(values: Sequence[int], order: Order) -> tuple[int, ...]:
    """Return what belongs to the axes of a tensor, such as its shape, in an order."""
    return tuple(values[axis] for axis in order)


def between(before: Order, after: Order) -> Order:
    """Return the axes of ``permute_dims`` that turn a copy in one order into another."""
    return tuple(before.index(axis) for axis in after)


def moves_data(shape: Sequence[int], axes: Order) -> bool:
    """Tell whether ``permute_dims`` with these axes moves elements; if not, it is a reshape."""
    kept = [axis for axis in axes if shape[axis] != 1]
    return kept != sorted(kept)


def of_transposed(order: Order, axes: Order) -> Order:
    """Return the order that a copy of ``x`` has as a copy of ``permute_dims(x, axes)``."""
    return tuple(axes.index(axis) for axis in order)


def of_reshaped(order: Order, before: Sequence[int], after: Sequence[int]) -> tuple[Order, Order]:
    """Return in which order a copy of ``x`` becomes one of ``reshape(x, after)`` by a reshape.

    A reshape splits and merges axes that stand side by side; in the copy, those of each group must
    stand side by side too, in the same order. ``before`` is the shape of ``x``. Returns the order
    nearest to ``order`` in which they do, and the order that the result then has.
    """
    groups, rest = _groups(before, after)
    needed: list[int] = []
    found: list[int] = []
    for axis in order:
        if axis not in needed:
            old, new = next(group for group in groups if axis in group[0])
            needed += old
            found += new
    return tuple(needed), tuple(found + rest)


def _groups(
    before: Sequence[int], after: Sequence[int]
) -> tuple[list[tuple[list[int], list[int]]], list[int]]:
    """Pair the fewest axes of two shapes that have one product, from the first axis on.

    The second result are the axes of ``after`` that are left; their extents are 1.
    """
    if 0 in before:
        return [(list(identity(len(before))), list(identity(len(after))))], []
    groups = []
    one = other = 0
    while one < len(before):
        old, new = [one], []
        size, made = before[one], 1
        one += 1
        while size != made:
            if made < size:
                new.append(other)
                made *= after[other]
                other += 1
            else:
                old.append(one)
                size *= before[one]
                one += 1
        if not new and other < len(after) and after[other] == 1:
            new.append(other)
            other += 1
        groups.append((old, new))
    return groups, list(range(other, len(after)))


class Copies:
    """What the new function has computed of each tensor of the old one.

    A copy in another order is made when something reads it, once.
    """

    def __init__(self, builder: Any) -> None:
        """``builder`` emits the bindings of the new function."""
        self._builder = builder
        self._made: dict[Any, dict[Order, Any]] = {}

    def add(self, item: Any, order: Order, value: Any) -> None:
        """Note that ``value`` is a copy of ``item`` in an order."""
        self._made.setdefault(item, {}).setdefault(order, value)

    def share(self, item: Any, other: Any) -> bool:
        """Note that two items are one tensor; False if nothing is known of the other one."""
        if other not in self._made:
            return False
        self._made[item] = self._made[other]
        return True

    def orders(self, item: Any) -> list[Order]:
        """Return the orders other than its own in which there are copies of ``item``."""
        return [order for order in self._made.get(item, {}) if order != identity(len(order))]

    def there(self, item: Any, order: Order) -> bool:
        """Tell whether there is a copy in this order already."""
        return order in self._made.get(item, {})

    def get(self, item: Any, order: Order | None = None) -> Any:
        """Return ``item`` in an order, its own by default."""
        made = self._made[item]
        if order is None:
            order = identity(len(next(iter(made))))
        if order not in made:
            first, value = next(iter(made.items()))
            made[order] = self._builder.emit(transposed(value, between(first, order)))
        return made[order]


def transposed(value: Any, axes: Order) -> Any:
    """Return ``permute_dims``; a reshape, which costs nothing, where no element moves."""
    shape = shape_of(value)
    if moves_data(shape, axes):
        return relax.op.permute_dims(value, axes)
    return relax.op.reshape(value, reordered(shape, axes))


# -- Operators whose attributes follow the order of the axes --------------------------------------

Converted = tuple[Any, Order]
"""A call, and the order of the axes of its result."""


@dataclass(frozen=True)
class Site:
    """A call that is to read its tensors in an order.

    Attributes
    ----------
    call: the call in the old function.
    order: of the axes of each tensor that it reads.
    tensor: returns an argument in that order, with axes of extent 1 in front if it has fewer.
    own: returns an argument as it is.
    """

    call: Any
    order: Order
    tensor: Callable[[Any], Any]
    own: Callable[[Any], Any]

    def place(self, axis: Any) -> int:
        """Return where an axis is in the order."""
        return self.order.index(int(axis) % len(self.order))

    def made(self, arguments: Sequence[Any], **attributes: Any) -> Any:
        """Return the call with other arguments and some other attributes."""
        attrs = self.call.attrs
        if attributes:
            info = type(attrs).__tvm_ffi_type_info__
            fields = {field.name: getattr(attrs, field.name) for field in info.fields}
            attrs = make_node(info.type_key, **{**fields, **attributes})
        return relax.Call(self.call.op, list(arguments), attrs, self.call.ty_args)

    def followed(self, *rest: Any, **attributes: Any) -> Converted:
        """Return the call on its first tensor and ``rest``, with a result in the same order."""
        return self.made([self.tensor(self.call.args[0]), *rest], **attributes), self.order

    def rest(self) -> list[Any]:
        """Return the arguments after the first one as they are."""
        return [self.own(argument) for argument in self.call.args[1:]]


Rule = Callable[[Site], Converted | None]


def elementwise(site: Site) -> Converted | None:
    return site.made([site.tensor(argument) for argument in site.call.args]), site.order


def _along(site: Site) -> Converted | None:
    """An operator on one tensor, along one axis that its result has too."""
    axis = site.call.attrs.axis
    if axis is None:
        return None
    return site.followed(*site.rest(), axis=site.place(axis))


def concat(site: Site) -> Converted | None:
    fields = relax.Tuple([site.tensor(field) for field in site.call.args[0].fields])
    return site.made([fields], axis=site.place(site.call.attrs.axis or 0)), site.order


def _take(site: Site) -> Converted | None:
    return _along(site) if len(shape_of(site.call.args[1])) == 1 else None


def _slice(site: Site) -> Converted | None:
    _, axes, *bounds = site.call.args
    places = relax.Tuple([tirx.IntImm("int64", site.place(axis)) for axis in axes.fields])
    return site.followed(places, *bounds)


def _pad(site: Site) -> Converted | None:
    widths = [int(width) for width in site.call.attrs.pad_width]
    pairs = [widths[2 * axis : 2 * axis + 2] for axis in site.order]
    return site.followed(pad_width=[width for pair in pairs for width in pair])


def _broadcast(site: Site) -> Converted | None:
    shape = [int(extent) for extent in site.call.args[1].values]
    if len(shape) != len(site.order):
        return None
    return site.followed(relax.ShapeExpr(reordered(shape, site.order)))


def _statistic(site: Site) -> Converted | None:
    attrs = site.call.attrs
    if attrs.axis is None:
        return None
    one = isinstance(attrs.axis, int | tirx.IntImm)
    places = [site.place(axis) for axis in ([attrs.axis] if one else attrs.axis)]
    axis: Any = places[0] if one else places
    made, order = site.followed(axis=axis)
    if attrs.keepdims:
        return made, order
    left = [axis for place, axis in enumerate(site.order) if place not in places]
    return made, tuple(sorted(left).index(axis) for axis in left)


def _pool(site: Site) -> Converted | None:
    attrs = site.call.attrs
    layout = _image_layout(attrs.layout, attrs.out_layout, site.order)
    if layout is None:
        return None
    return site.followed(layout=layout, out_layout=layout)


def _image_layout(layout: Any, out_layout: Any, order: Order) -> str | None:
    """``"NCHW"`` for result and operand, and its order -> ``"NHWC"``; None for anything else."""
    given = str(layout)
    if order != channels_last(len(given)) or not given.startswith("NC"):
        return None
    if str(out_layout or layout) != given:
        return None
    return "".join(given[axis] for axis in order)


def _resize(site: Site) -> Converted | None:
    layout = _image_layout(site.call.attrs.layout, "", site.order)
    if layout is None:
        return None
    return site.followed(*site.call.args[1:], layout=layout)


def _normalised(site: Site) -> Converted | None:
    """By group or instance: statistics along several axes, and one that stays."""
    attrs = site.call.attrs
    return site.followed(
        *site.rest(),
        channel_axis=site.place(attrs.channel_axis),
        axes=sorted(site.place(axis) for axis in attrs.axes),
    )


def _layer_norm(site: Site) -> Converted | None:
    axes = site.call.attrs.axes
    if len(axes) != 1:
        return None
    return site.followed(*site.rest(), axes=[site.place(axes[0])])


_UNARY = (
    "abs acos acosh asin asinh atan atanh bitwise_not ceil cos cosh erf exp floor isfinite isinf "
    "isnan log logical_not negative round rsqrt sigmoid sign sin sinh sqrt square tan tanh trunc "
    "clip astype nn.relu nn.leakyrelu nn.gelu nn.gelu_tanh nn.selu nn.silu nn.softplus"
)
_SEVERAL = (
    "add subtract multiply divide power floor_divide mod floor_mod maximum minimum log_add_exp "
    "equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor "
    "atan2 bitwise_and bitwise_or bitwise_xor left_shift right_shift where ewise_fma"
)
_RULES: dict[str, Rule] = {
    **{name: elementwise for name in f"{_UNARY} {_SEVERAL}".split()},
    **{name: _along for name in ("split", "flip", "nn.softmax", "nn.log_softmax", "nn.prelu")},
    **{name: _statistic for name in ("mean", "sum", "max", "min", "prod", "variance", "std")},
    **{
        f"nn.{kind}_pool{axes}d": _pool
        for kind in ("max", "avg", "adaptive_avg")
        for axes in (1, 2, 3)
    },
    "argmax": _statistic,
    "argmin": _statistic,
    "concat": concat,
    "take": _take,
    "strided_slice": _slice,
    "nn.pad": _pad,
    "broadcast_to": _broadcast,
    "image.resize2d": _resize,
    "image.resize3d": _resize,
    "nn.group_norm": _normalised,
    "nn.instance_norm": _normalised,
    "nn.layer_norm": _layer_norm,
    "nn.rms_norm": _layer_norm,
}
RULES = {f"relax.{name}": rule for name, rule in _RULES.items()}
