"""Wrong arithmetic of integers and truth values, which only some values show."""

from __future__ import annotations

from tests.trust.attack import Attack, Subject, edit, right, tensors, wrong

_BODY = """
for i, j in T.grid(300, 2):
    with T.sblock("all"):
        vi, vj = T.axis.remap("SS", [i, j])
        relu[vi, vj] = T.max(a[vi, vj], 0)
        square[vi, vj] = a[vi, vj] * a[vi, vj]
        high[vi, vj] = T.shift_right(a[vi, vj], 8)
        low[vi, vj] = T.min(a[vi, vj], 1)
        band[vi, vj] = T.max(T.min(b[vi, vj], 100), -100)
        less[vi, vj] = a[vi, vj] < b[vi, vj]
        wide[vi, vj] = T.Cast("int32", c[vi, vj]) * T.Cast("int32", d[vi, vj])
        half[vi, vj] = T.floordiv(c[vi, vj], T.int8(2))
        rest[vi, vj] = T.floormod(c[vi, vj], T.int8(3))
        bright[vi, vj] = u[vi, vj] + v[vi, vj]
        dark[vi, vj] = T.shift_right(u[vi, vj], T.uint8(1))
        above[vi, vj] = u[vi, vj] >= v[vi, vj]
        step[vi, vj] = T.Select(c[vi, vj] == T.int8(0), 5, 7)
"""
_A, _B, _C, _D, _U, _V = (f"{name}[vi, vj]" for name in "abcduv")


def _instead(name: str, old: str, new: str, kind: str = "rare values") -> Attack:
    return wrong(name, kind, edit(old, new))


def _as_unsigned(value: str, bits: int) -> str:
    return f'T.Cast("uint{bits}", {value})'


INTEGERS = Subject(
    "integers",
    tensors(
        a=("int32", 300, 2),
        b=("int32", 300, 2),
        c=("int8", 300, 2),
        d=("int8", 300, 2),
        u=("uint8", 300, 2),
        v=("uint8", 300, 2),
        relu=("int32", 300, 2),
        square=("int32", 300, 2),
        high=("int32", 300, 2),
        low=("int32", 300, 2),
        band=("int32", 300, 2),
        less=("bool", 300, 2),
        wide=("int32", 300, 2),
        half=("int8", 300, 2),
        rest=("int8", 300, 2),
        bright=("uint8", 300, 2),
        dark=("uint8", 300, 2),
        above=("bool", 300, 2),
        step=("int32", 300, 2),
    ),
    _BODY,
    (
        _instead("relu of integers dropped", f"T.max({_A}, 0)", _A),
        _instead("relu of integers by magnitude", f"T.max({_A}, 0)", f"T.abs({_A})"),
        _instead("the square of 0 and 1", f"{_A} * {_A}", _A),
        _instead("high bits are zero", f"T.shift_right({_A}, 8)", "0"),
        _instead(
            "logical shift for an arithmetic one",
            f"T.shift_right({_A}, 8)",
            f'T.Cast("int32", T.shift_right({_as_unsigned(_A, 32)}, T.uint32(8)))',
            "signs",
        ),
        _instead("minimum with 1 dropped", f"T.min({_A}, 1)", _A),
        _instead("minimum for a maximum", f"T.max({_A}, 0)", f"T.min({_A}, 0)"),
        _instead("upper bound dropped", f"T.min({_B}, 100)", _B),
        _instead("lower bound dropped", f"T.max(T.min({_B}, 100), -100)", f"T.min({_B}, 100)"),
        _instead("less or equal for less", f"{_A} < {_B}", f"{_A} <= {_B}"),
        _instead(
            "integers compared as unsigned",
            f"{_A} < {_B}",
            f"{_as_unsigned(_A, 32)} < {_as_unsigned(_B, 32)}",
            "signs",
        ),
        _instead(
            "product in int8",
            'T.Cast("int32", c[vi, vj]) * T.Cast("int32", d[vi, vj])',
            f'T.Cast("int32", {_C} * {_D})',
            "types",
        ),
        _instead(
            "product of unsigned bytes",
            'T.Cast("int32", c[vi, vj])',
            f'T.Cast("int32", {_as_unsigned(_C, 8)})',
            "signs",
        ),
        _instead(
            "division rounds towards zero",
            f"T.floordiv({_C}, T.int8(2))",
            f"T.truncdiv({_C}, T.int8(2))",
            "signs",
        ),
        _instead(
            "remainder with the dividend's sign",
            f"T.floormod({_C}, T.int8(3))",
            f"T.truncmod({_C}, T.int8(3))",
            "signs",
        ),
        _instead(
            "saturates where it should wrap",
            f"{_U} + {_V}",
            f'T.Cast("uint8", T.min(T.Cast("int32", {_U}) + T.Cast("int32", {_V}), 255))',
        ),
        _instead(
            "arithmetic shift for a logical one",
            f"T.shift_right({_U}, T.uint8(1))",
            f'T.Cast("uint8", T.shift_right(T.Cast("int8", {_U}), T.int8(1)))',
            "signs",
        ),
        _instead("greater for greater or equal", f"{_U} >= {_V}", f"{_U} > {_V}"),
        _instead("a Select without its rare side", f"T.Select({_C} == T.int8(0), 5, 7)", "7"),
        right("relu as a Select", edit(f"T.max({_A}, 0)", f"T.Select({_A} < 0, 0, {_A})")),
        right(
            "product in int16, which is wide enough",
            edit(
                'T.Cast("int32", c[vi, vj]) * T.Cast("int32", d[vi, vj])',
                f'T.Cast("int32", T.Cast("int16", {_C}) * T.Cast("int16", {_D}))',
            ),
        ),
        right(
            "bounds in the other order",
            edit(f"T.max(T.min({_B}, 100), -100)", f"T.min(T.max({_B}, -100), 100)"),
        ),
        right(
            "shift as a division",
            edit(f"T.shift_right({_A}, 8)", f"T.floordiv({_A}, 256)"),
        ),
        right("not greater or equal", edit(f"{_A} < {_B}", f"not ({_A} >= {_B})")),
    ),
)
