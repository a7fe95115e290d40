"""What is accepted is apart: drawn programs, whose accesses are counted out by Python."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping
from typing import NamedTuple

import pytest

from schedlang.tvm.analysis.races import determinism
from tests.targets.programs import from_body

TENSORS = 'A: T.Buffer((4096,), "float32"), C: T.Buffer((4096, 4096), "float32")'
Values = Mapping[str, int]


class Expression(NamedTuple):
    """Text for TVM, and the value of it."""

    text: str
    value: Callable[[Values], int]


def variable(name: str) -> Expression:
    return Expression(name, lambda values: values[name])


def number(value: int) -> Expression:
    return Expression(str(value), lambda _: value)


def choice(a: Expression, b: Expression, limit: int) -> Expression:
    return Expression(
        f"T.if_then_else({a.text} < {limit}, {b.text}, {a.text})",
        lambda v: b.value(v) if a.value(v) < limit else a.value(v),
    )


def binary(text: str, value: Callable[[int, int], int], a: Expression, b: Expression) -> Expression:
    return Expression(text.format(a.text, b.text), lambda v: value(a.value(v), b.value(v)))


OF_TWO = [
    ("({} + {})", lambda a, b: a + b),
    ("({} + {})", lambda a, b: a + b),
    ("({} - {})", lambda a, b: a - b),
    ("T.min({}, {})", min),
    ("T.max({}, {})", max),
    ("T.bitwise_xor({}, {})", lambda a, b: a ^ b),
    ("T.bitwise_or({}, {})", lambda a, b: a | b),
]
OF_A_NUMBER = [
    ("{} * {}", lambda a, b: a * b),
    ("{} * {}", lambda a, b: a * b),
    ("{} // {}", lambda a, b: a // b),
    ("{} // {}", lambda a, b: a // b),
    ("{} % {}", lambda a, b: a % b),
    ("{} % {}", lambda a, b: a % b),
    ("T.shift_right({}, {})", lambda a, b: a >> b),
    ("T.bitwise_and({}, {})", lambda a, b: a & b),
]
NUMBERS = [1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 12, 16]


def drawn(draw: random.Random, names: list[str], depth: int) -> Expression:
    """Draw an integer expression."""
    if depth == 0 or draw.random() < 0.1:
        return variable(draw.choice(names)) if draw.random() < 0.9 else number(draw.randrange(9))
    a = drawn(draw, names, depth - 1)
    if draw.random() < 0.5:
        return binary(*draw.choice(OF_A_NUMBER), a, number(draw.choice(NUMBERS)))
    b = drawn(draw, names, depth - 1)
    if draw.random() < 0.1:
        return choice(a, b, draw.randrange(12))
    return binary(*draw.choice(OF_TWO), a, b)


def drawn_sum(draw: random.Random, names: list[str]) -> Expression:
    """Draw what tiled loops have as an index: multiples of parts of a sum."""
    total = number(0)
    for name in names:
        if draw.random() < 0.8:
            term = binary(
                "{} * {}", lambda a, b: a * b, variable(name), number(draw.choice(NUMBERS))
            )
            total = binary("({} + {})", lambda a, b: a + b, total, term)
    return total


def drawn_indices(draw: random.Random, names: list[str]) -> list[Expression]:
    """Draw the two indices of an access."""
    if draw.random() < 0.5:
        return [drawn(draw, names, draw.randrange(1, 4)) for _ in range(2)]
    by = number(draw.choice(NUMBERS[1:]))
    first, second = drawn_sum(draw, names), drawn_sum(draw, names)
    if draw.random() < 0.7:
        second = first
    return [
        binary("{} // {}", lambda a, b: a // b, first, by),
        binary("{} % {}", lambda a, b: a % b, second, by),
    ]


class Program(NamedTuple):
    """A program, and whether two of its iterations access an element that one of them stores."""

    text: str
    meets: bool


def program(draw: random.Random) -> Program:
    """Draw a serial loop, a parallel one in it, and serial ones in that."""
    extents = {name: draw.choice([1, 2, 3, 4, 5, 8, 9]) for name in "oijk"}
    shrinks = draw.random() < 0.3  # the innermost loop is a triangle's
    names = ["o", "i", "j", "k"]
    store, load = drawn_indices(draw, names), drawn_indices(draw, names)
    if draw.random() < 0.5:
        load = store
    loads = draw.random() < 0.5
    guard = drawn(draw, names, 2) if draw.random() < 0.3 else None
    limit = draw.randrange(10)
    last = "i + 1" if shrinks else str(extents["k"])
    value = f"A[i * 64 + j * 8 + k] + C[{', '.join(e.text for e in load)}]"
    lines = [
        f"for o in range({extents['o']}):",
        f"    for i in T.parallel({extents['i']}):",
        f"        for j in range({extents['j']}):",
        f"            for k in range({last}):",
        f"                if {guard.text} < {limit}:" if guard else "                if True:",
        f"                    C[{', '.join(e.text for e in store)}] = "
        + (value if loads else "A[i * 64 + j * 8 + k]"),
    ]
    touched: dict[tuple[int, ...], set[int]] = {}
    stored: set[tuple[int, ...]] = set()
    for o, i, j in itertools.product(*(range(extents[name]) for name in "oij")):
        for k in range(i + 1 if shrinks else extents["k"]):
            values = {"o": o, "i": i, "j": j, "k": k}
            if guard is not None and guard.value(values) >= limit:
                continue
            place = (o, *(one.value(values) for one in store))
            stored.add(place)
            touched.setdefault(place, set()).add(i)
            if loads:
                read = (o, *(one.value(values) for one in load))
                touched.setdefault(read, set()).add(i)
    return Program("\n".join(lines), any(len(touched[place]) > 1 for place in stored))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_accepted_programs_are_apart(seed: int) -> None:
    draw = random.Random(seed)
    accepted = refused = 0
    for _ in range(60):
        text, meets = program(draw)
        race = determinism(from_body(text, TENSORS)).race
        assert race is not None or not meets, text
        accepted += not meets and race is None
        refused += not meets and race is not None
    assert accepted > 10
    # Those depend on no data and are short: each element is counted.
    assert refused == 0
