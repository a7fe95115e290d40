"""Random small programs, equivalent ways to write them, and programs one change away."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

# One of several options, by a random generator or by Hypothesis.
Choose = Callable[[Sequence[Any]], Any]

STYLES = ("names", "arguments", "loops", "units", "commutation")
COMMUTATIVE = {"+", "*", "min", "max", "==", "!=", "and", "or"}
FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
# For each operator what a mutation makes of it.
OTHER = {
    "+": "-", "-": "+", "*": "+", "min": "max", "max": "min", "<": "<=", "<=": "<", "==": "!=",
    "!=": "==", "and": "or", "or": "and", "//": "%", "%": "//", "tanh": "exp", "exp": "tanh",
}  # fmt: skip


@dataclass(frozen=True)
class Index:
    """``(sum of factor * axis + offset) op by``; ``op`` is ``""``, ``"//"`` or ``"%"``."""

    terms: tuple[tuple[int, int], ...]
    offset: int = 0
    op: str = ""
    by: int = 2


@dataclass(frozen=True)
class Load:
    tensor: int
    indices: tuple[Index, ...]


@dataclass(frozen=True)
class Const:
    value: int


@dataclass(frozen=True)
class FromAxis:
    index: Index


@dataclass(frozen=True)
class Call:
    op: str
    a: Any


@dataclass(frozen=True)
class Binary:
    """Of values, of indices (a comparison) or of conditions."""

    op: str
    a: Any
    b: Any


@dataclass(frozen=True)
class Choice:
    condition: Any
    a: Any
    b: Any


@dataclass(frozen=True)
class Tensor:
    shape: tuple[int, ...]
    dtype: str
    parameter: bool


@dataclass(frozen=True)
class Stage:
    """One block. ``extents`` of its axes, of which ``reductions`` are reduced by ``combine``."""

    extents: tuple[int, ...]
    reductions: tuple[int, ...]
    combine: str
    target: int
    place: tuple[Index, ...]
    value: Any


@dataclass(frozen=True)
class Kernel:
    tensors: tuple[Tensor, ...]
    stages: tuple[Stage, ...]


def random_kernel(choose: Choose, tiny: bool = False) -> Kernel:
    """A program on tensors of 2 dimensions of 4 elements, with axes of 2 and 3 iterations."""
    dtypes = ("float32",) if tiny else ("float32", "float32", "int32", "float64")
    inputs = [Tensor((4, 4), choose(dtypes), True) for _ in range(choose((1, 2)))]
    tensors, stages = list(inputs), []
    count = 1 if tiny else choose((1, 1, 2, 3))
    for number in range(count):
        extents = (3, 3) if tiny else tuple(choose((2, 3)) for _ in range(choose((2, 3))))
        reductions = choose(((), (), (1,))) if len(extents) == 2 else (2,)
        axes = [axis for axis in range(len(extents)) if axis not in reductions]
        if len(axes) == 1:
            axes = [axes[0], axes[0]]
        elif choose((False, False, True)):
            axes = axes[::-1]
        tensors.append(Tensor((4, 4), choose(dtypes), number == count - 1))
        place = tuple(Index(((axis, 1),)) for axis in axes[:2])
        # A tiny program may read what it writes, and write an element several times.
        place = place if not tiny else choose((place, place, (place[0], place[0])))
        readable = len(tensors) if tiny and choose((False, False, True)) else len(tensors) - 1
        depth = choose((1, 2)) if tiny else 2
        value = _value(choose, readable, len(extents), depth, tiny)
        combine = choose(("+", "max")) if reductions else ""
        stages.append(Stage(extents, reductions, combine, len(tensors) - 1, place, value))
    return Kernel(tuple(tensors), tuple(stages))


def _value(choose: Choose, tensors: int, axes: int, depth: int, tiny: bool) -> Any:
    def again() -> Any:
        return _value(choose, tensors, axes, depth - 1, tiny)

    kinds = ["load", "load", "const"] + ([] if tiny else ["axis"])
    if depth:
        kinds += ["binary"] * 4 + ([] if tiny else ["call", "choice"])
    match choose(kinds):
        case "load":
            indices = tuple(_index(choose, axes, tiny) for _ in range(2))
            return Load(choose(range(tensors)), indices)
        case "const":
            return Const(choose((1, 2)))
        case "axis":
            return FromAxis(_index(choose, axes, tiny))
        case "binary":
            return Binary(
                choose(("+", "-", "*", "max", "min")[: 3 if tiny else 5]), again(), again()
            )
        case "call":
            return Call(choose(("tanh", "exp")), again())
        case _:
            return Choice(_condition(choose, tensors, axes, 1), again(), again())


def _condition(choose: Choose, tensors: int, axes: int, depth: int) -> Any:
    if depth and choose((False, True)):
        parts = [_condition(choose, tensors, axes, 0) for _ in range(2)]
        return Binary(choose(("and", "or")), *parts)
    if choose((False, False, True)):
        load = Load(choose(range(tensors)), tuple(_index(choose, axes, False) for _ in range(2)))
        return Binary(choose(("<", "<=")), load, Const(choose((0, 1))))
    return Binary(
        choose(("<", "<=", "==", "!=")),
        _index(choose, axes, False),
        Index((), choose((0, 1, 2))),
    )


def _index(choose: Choose, axes: int, tiny: bool) -> Index:
    """Between 0 and 3 for axes of up to 3 iterations."""
    axis = choose(range(axes))
    if tiny:
        return Index(((axis, 1),))
    match choose(("plain", "plain", "offset", "div", "mod")):
        case "plain":
            return Index(((axis, 1),))
        case "offset":
            return Index(((axis, 1),), 1)
        case "div":
            return Index(((axis, 1), (choose(range(axes)), 2)), choose((0, 1)), "//", 2)
        case _:
            return Index(((axis, 1), (choose(range(axes)), 2)), choose((0, 1)), "%", choose((2, 4)))


def mutants(node: Any) -> Iterator[tuple[str, Any]]:
    """Yield every change of one constant, extent, dtype, offset or operator, with its name.

    An index may leave its tensor; ``in_bounds`` tells.
    """
    if isinstance(node, tuple):
        for place, item in enumerate(node):
            for what, changed in mutants(item):
                yield what, (*node[:place], changed, *node[place + 1 :])
        return
    if not dataclasses.is_dataclass(node) or isinstance(node, type):
        return
    own: dict[str, Any] = {}
    if isinstance(node, Const):
        own["constant"] = {"value": node.value + 1}
    elif isinstance(node, Index):
        own["offset"] = {"offset": node.offset + 1}
        if node.op:
            own["index operator"] = {"op": OTHER[node.op]}
    elif isinstance(node, Tensor):
        own["dtype"] = {"dtype": "float32" if node.dtype != "float32" else "float64"}
        own["shape"] = {"shape": (node.shape[0], node.shape[1] + 1)}
    elif isinstance(node, Stage):
        own["extent"] = {"extents": (5 - node.extents[0], *node.extents[1:])}
        if node.combine:
            own["reduction"] = {"combine": "max" if node.combine == "+" else "+"}
    elif isinstance(node, Binary | Call):
        own["operator"] = {"op": OTHER[node.op]}
    for what, changes in own.items():
        yield what, dataclasses.replace(node, **changes)
    for field in dataclasses.fields(node):
        for what, changed in mutants(getattr(node, field.name)):
            yield what, dataclasses.replace(node, **{field.name: changed})


def in_bounds(kernel: Kernel) -> bool:
    """Whether every index stays in its tensor."""

    def accesses(node: Any) -> Iterator[tuple[int, tuple[Index, ...]]]:
        if isinstance(node, Load):
            yield node.tensor, node.indices
        elif isinstance(node, Binary | Choice | Call):
            for field in dataclasses.fields(node):
                yield from accesses(getattr(node, field.name))

    for stage in kernel.stages:
        for tensor, indices in (*accesses(stage.value), (stage.target, stage.place)):
            for index, extent in zip(indices, kernel.tensors[tensor].shape, strict=True):
                largest = index.offset + sum(f * (stage.extents[a] - 1) for a, f in index.terms)
                if index.op:
                    largest = largest // index.by if index.op == "//" else index.by - 1
                if largest >= extent:
                    return False
    return True


def script(kernel: Kernel, choose: Choose | None = None, styles: Sequence[str] = ()) -> str:
    """The kernel as TVMScript; ``styles`` says what is written in a way that ``choose`` picks."""
    return _Writer(kernel, choose, frozenset(styles)).script()


class _Writer:
    def __init__(self, kernel: Kernel, choose: Choose | None, styles: frozenset[str]) -> None:
        self._kernel = kernel
        self._choose: Choose = choose if choose is not None else lambda options: options[0]
        self._styles = styles
        self._made = 0
        self._names = [self._name(f"t{k}") for k in range(len(kernel.tensors))]
        # Where a tensor gets a dimension of extent 1; None for nowhere.
        self._units = [self._pick("units", (None, 0, 1, 2)) for _ in kernel.tensors]
        self._zero = "0"

    def _pick(self, style: str, options: Sequence[Any]) -> Any:
        return self._choose(options) if style in self._styles else options[0]

    def _shuffled(self, style: str, items: Sequence[Any]) -> list[Any]:
        left, order = list(items), []
        while left:
            order.append(left.pop(self._pick(style, range(len(left)))))
        return order

    def _name(self, usual: str) -> str:
        self._made += 1
        return self._pick("names", (usual, f"x{self._made}", f"a{99 - self._made}"))

    def _shape(self, tensor: int) -> str:
        shape = [str(extent) for extent in self._kernel.tensors[tensor].shape]
        return f"({', '.join(self._with_unit(tensor, shape, '1'))},)"

    def _with_unit(self, tensor: int, parts: list[str], unit: str) -> list[str]:
        place = self._units[tensor]
        return parts if place is None else [*parts[:place], unit, *parts[place:]]

    def script(self) -> str:
        tensors = self._kernel.tensors
        order = self._shuffled("arguments", [k for k, t in enumerate(tensors) if t.parameter])
        parameters = ", ".join(
            f"{self._names[k]}: T.Buffer({self._shape(k)}, '{tensors[k].dtype}')" for k in order
        )
        lines = [f"@T.prim_func(s_tir=True)\ndef {self._name('main')}({parameters}):"]
        for k in self._shuffled("names", [k for k, t in enumerate(tensors) if not t.parameter]):
            lines.append(
                f"    {self._names[k]} = T.sblock_alloc_buffer({self._shape(k)}, "
                f"'{tensors[k].dtype}')"
            )
        for number, stage in enumerate(self._kernel.stages):
            lines += self._stage(number, stage)
        return "\n".join(lines) + "\n"

    def _stage(self, number: int, stage: Stage) -> list[str]:
        axes = range(len(stage.extents))
        loops = [self._name(f"i{number}_{axis}") for axis in axes]
        names = [self._name(f"v{number}_{axis}") for axis in axes]
        order = self._shuffled("loops", axes)
        # The order of reductions counts: they keep theirs among the places that they got.
        ordered = iter(stage.reductions)
        order = [next(ordered) if axis in stage.reductions else axis for axis in order]
        nest = [(loops[axis], stage.extents[axis]) for axis in order]
        unit = self._pick("units", (None, *range(len(nest) + 1)))
        declared = [(axis, self._axis(stage, axis, loops, names)) for axis in axes]
        lines = [text for _, text in self._shuffled("loops", declared)]
        self._zero = "0"
        if unit is not None:
            name = self._name(f"u{number}")
            nest.insert(unit, (name, 1))
            if self._pick("units", (False, True)):
                lines.append(f"{name}_ = T.axis.{self._pick('units', 'SR')}(1, {name})")
                self._zero = f"{name}_"
        variables, extents = zip(*nest, strict=True)
        target = self._element(stage.target, stage.place, names)
        dtype = self._kernel.tensors[stage.target].dtype
        value = self._value(stage.value, names, dtype)
        if stage.combine:
            start = "0" if stage.combine == "+" else "-9"
            lines += ["with T.init():", f"    {target} = T.{dtype}({start})"]
            value = self._apply(stage.combine, target, value)
        lines.append(f"{target} = {value}")
        spacious = f"for {', '.join(variables)} in T.grid({', '.join(map(str, extents))}):"
        head = [f"    {spacious}", f"        with T.sblock('{self._name(f'b{number}')}'):"]
        return head + ["            " + line for line in lines]

    def _axis(self, stage: Stage, axis: int, loops: list[str], names: list[str]) -> str:
        kind = "R" if axis in stage.reductions else "S"
        return f"{names[axis]} = T.axis.{kind}({stage.extents[axis]}, {loops[axis]})"

    def _element(self, tensor: int, indices: Sequence[Index], names: list[str]) -> str:
        written = [self._index(index, names) for index in indices]
        return f"{self._names[tensor]}[{', '.join(self._with_unit(tensor, written, self._zero))}]"

    def _index(self, index: Index, names: list[str]) -> str:
        terms = [f"{names[a]} * {f}" if f != 1 else names[a] for a, f in index.terms]
        if index.offset or not terms:
            terms.append(str(index.offset))
        total = " + ".join(self._shuffled("commutation", terms))
        return f"({total}) {index.op} {index.by}" if index.op else total

    def _apply(self, op: str, a: str, b: str) -> str:
        swap = self._pick("commutation", (False, True))
        if swap and op in COMMUTATIVE:
            a, b = b, a
        elif swap and op in FLIPPED:
            op, a, b = FLIPPED[op], b, a
        return f"T.{op}({a}, {b})" if op in ("min", "max") else f"({a} {op} {b})"

    def _value(self, node: Any, names: list[str], dtype: str) -> str:
        if isinstance(node, Index):
            return self._index(node, names)
        if isinstance(node, Const):
            return f"T.{dtype}({node.value})"
        if isinstance(node, FromAxis):
            return f"T.Cast('{dtype}', {self._index(node.index, names)})"
        if isinstance(node, Load):
            element = self._element(node.tensor, node.indices, names)
            same = self._kernel.tensors[node.tensor].dtype == dtype
            return element if same else f"T.Cast('{dtype}', {element})"
        if isinstance(node, Call):
            inner = self._value(node.a, names, dtype)
            if dtype == "int32":
                return f"T.Cast('int32', T.{node.op}(T.Cast('float32', {inner})))"
            return f"T.{node.op}({inner})"
        if isinstance(node, Choice):
            parts = [self._value(part, names, dtype) for part in (node.condition, node.a, node.b)]
            return f"T.if_then_else({', '.join(parts)})"
        return self._apply(
            node.op, self._value(node.a, names, dtype), self._value(node.b, names, dtype)
        )
