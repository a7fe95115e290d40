"""Replacement of mathematical functions in a block by plain arithmetic.

TVM's LLVM code generation turns exp and log of a vector into LLVM intrinsics, which call libm once
for each lane, and scalarises the whole loop for erf. Plain arithmetic becomes vector instructions.
The replacement uses TVM's own block replacement.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import tirx
from tvm.ir import Call, IRModule, PrimType
from tvm.s_tir import SBlock
from tvm_ffi import structural_map, structural_walk

from schedlang.tvm.program import MAIN, changed_block
from schedlang.tvm.schedule.ffi import TVMSchedule, get_sref, get_statement, replace
from schedlang.tvm.values import called, found_in, holds, variables_in

# -- Elementary functions of float32 in plain arithmetic, which vectorises with its loop ----------
#
# The methods are standard (J.-M. Muller, Elementary Functions, 3rd edition: additive range
# reduction in 11.2, polynomials in 3): exp(x) = 2^n exp(r) with |r| <= log(2) / 2, log(2^e m) =
# e log(2) + log(m) with 2/3 <= m < 4/3. The polynomials are our own minimax fits (Lawson's
# iteration on 4,000 Chebyshev nodes, weighted by the relative error of the result), rounded to
# float32. docs/vector_math.md states the error of each function, and a test measures it.
#
# Three rules hold everywhere. A value used twice is bound to a variable by a ``Let``: it may be a
# large expression, and a ``Let`` becomes one vector value. Integers never overflow, because TVM
# tells LLVM that they do not. Comparisons are written so that a NaN reaches the arithmetic.

Expr = Any

_FLOAT = PrimType("float32")
_INT = PrimType("int32")

# Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits of the sum.
_ROUNDER = 12582912.0
_ROUNDER_BITS = 0x4B400000
_MANTISSA_BITS = 23
_BIAS = 127

# Bit patterns as int32; the pattern of -infinity is the sum of the two.
_NAN_BITS = -0x400000
_QUIET_BIT = -0x400000
_SIGN_BIT = -(2**31)
_ONE_BITS = 0x3F800000
_LARGEST = 3.4028234663852886e38
_SMALLEST_NORMAL = 2.0**-126

_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.1219444005469057e-4
_LOG10_2_HIGH, _LOG10_2_LOW = 0.30078125, 2.487456639811952e-4
_LN2, _LN10 = 0.6931471805599453, 2.302585092994046
_LOG2_10, _LOG10_E = 3.321928094887362, 0.4342944819032518

# (exp(r) - 1 - r) / r^2 for |r| <= log(2) / 2.
_EXP = (0.49999997, 0.16666542, 0.041667204, 0.008366713, 0.0013882485)
# (log(1 + f) - f) / f^2 for -1/3 <= f <= 1/3.
_LOG = (-0.5, 0.3333321, -0.24999717, 0.20010747, -0.16682306) + (
    0.14001161,
    -0.12167154,
    0.14004757,
    -0.12948963,
)
# erf(x) / x - 1 in x^2 for |x| < _ERF_SPLIT; -log(erfc(x)) for _ERF_SPLIT <= x <= 4.
_ERF_SPLIT = 0.9
_ERF_SMALL = (0.12837917, -0.37612635, 0.11283715, -0.026860509) + (
    0.005203859,
    -0.00081756397,
    8.513105e-05,
)
_ERF_LARGE = (0.00016644761, 1.1277972, 0.63697606, 0.10411368) + (
    -0.022315213,
    0.0030654904,
    -0.00019821967,
)


@functools.cache
def _real(value: float) -> Expr:
    return tirx.FloatImm("float32", float(np.float32(value)))


@functools.cache
def _integer(value: int) -> Expr:
    return tirx.IntImm("int32", value)


def _bits(x: Expr) -> Expr:
    return tirx.reinterpret(_INT, x)


def _from_bits(x: Expr | int) -> Expr:
    return tirx.reinterpret(_FLOAT, _integer(x) if isinstance(x, int) else x)


def _fma(a: Expr, b: Expr, c: Expr) -> Expr:
    # TVM emits a fused multiply-add where the target has one.
    return tirx.Add(tirx.Mul(a, b), c)


def _select(condition: Expr, yes: Expr, no: Expr) -> Expr:
    return tirx.Select(condition, yes, no)


def _absolute(x: Expr) -> Expr:
    return _from_bits(tirx.bitwise_and(_bits(x), _integer(2**31 - 1)))


def _with_sign_of(x: Expr, positive: Expr) -> Expr:
    sign = tirx.bitwise_and(_bits(x), _integer(_SIGN_BIT))
    return _from_bits(tirx.bitwise_or(_bits(positive), sign))


def _polynomial(coefficients: Sequence[float], x: Expr) -> Expr:
    result = _real(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = _fma(result, x, _real(coefficient))
    return result


class _Bindings:
    """Values computed once: ``Let`` expressions around a result, the first one outermost."""

    def __init__(self) -> None:
        self._bound: list[tuple[Any, Expr]] = []

    def bind(self, name: str, value: Expr) -> Expr:
        variable = tirx.Var(name, value.ty)
        self._bound.append((variable, value))
        return variable

    def around(self, result: Expr) -> Expr:
        for variable, value in reversed(self._bound):
            result = tirx.Let(variable, value, result)
        return result


class _Power:
    """base^x = 2^n exp(r) with small ``r``; ``bits`` is the bit pattern of n + 1.5 * 2^23."""

    def __init__(
        self, let: _Bindings, x: Expr, log2_base: float, high: float, low: float, scale: float = 1.0
    ) -> None:
        rounded = let.bind("t", _fma(x, _real(log2_base), _real(_ROUNDER)))
        n = let.bind("n", tirx.Sub(rounded, _real(_ROUNDER)))
        r = _fma(n, _real(-high), x)
        if low:
            r = _fma(n, _real(-low), r)
        if scale != 1.0:
            r = tirx.Mul(r, _real(scale))
        self.let = let
        self.r = let.bind("r", r)
        self.bits = _bits(rounded)

    def mantissa_minus_1(self) -> Expr:
        """Return exp(r) - 1."""
        square = tirx.Mul(self.r, self.r)
        return _fma(square, _polynomial(_EXP, self.r), self.r)

    def mantissa(self) -> Expr:
        """Return exp(r)."""
        tail = _fma(_polynomial(_EXP, self.r), self.r, _real(1))
        return _fma(tail, self.r, _real(1))

    def factor(self) -> Expr:
        """Return 2^n; valid only where it is a normal number."""
        exponent = tirx.Sub(self.bits, _integer(_ROUNDER_BITS - _BIAS))
        return _from_bits(tirx.shift_left(exponent, _integer(_MANTISSA_BITS)))

    def scaled(self, value: Expr) -> Expr:
        """Return ``value`` times 2^n for n from -151 to 129, in two steps that round once."""
        both = self.let.bind("e", tirx.Sub(self.bits, _integer(_ROUNDER_BITS - 2 * _BIAS)))
        half = self.let.bind("h", tirx.shift_right(both, _integer(1)))
        for exponent in (half, tirx.Sub(both, half)):
            power = tirx.shift_left(exponent, _integer(_MANTISSA_BITS))
            value = tirx.Mul(value, _from_bits(power))
        return value


def _clamped(let: _Bindings, x: Expr, low: float, high: float) -> Expr:
    # Min and Max return the second operand if one is a NaN.
    return let.bind("x", tirx.Min(_real(high), tirx.Max(_real(low), x)))


def _base_to_the(
    limits: tuple[float, float], log2_base: float, high: float, low: float, scale: float = 1.0
) -> Callable[[Expr], Expr]:
    # Below the lower limit the result rounds to 0, above the upper one to infinity.
    def function(x: Expr) -> Expr:
        let = _Bindings()
        power = _Power(let, _clamped(let, x, *limits), log2_base, high, low, scale)
        return let.around(power.scaled(power.mantissa()))

    return function


exp = _base_to_the((-104.0, 89.0), _LOG2_E, _LN2_HIGH, _LN2_LOW)
exp2 = _base_to_the((-151.0, 129.0), 1.0, 1.0, 0.0, _LN2)
exp10 = _base_to_the((-45.3, 38.6), _LOG2_10, _LOG10_2_HIGH, _LOG10_2_LOW, _LN10)


def sigmoid(x: Expr) -> Expr:
    """Return 1 / (1 + y) or y / (1 + y), where y = exp(-|x|) cannot overflow."""
    let = _Bindings()
    x = let.bind("x", x)
    y = let.bind("y", exp(tirx.Sub(_real(0), _absolute(x))))
    numerator = _select(tirx.LT(x, _real(0)), y, _real(1))
    return let.around(tirx.Div(numerator, tirx.Add(_real(1), y)))


def tanh(x: Expr) -> Expr:
    """Return y / (y + 2) with y = exp(2 |x|) - 1, with the sign of x."""
    let = _Bindings()
    x = let.bind("x", x)
    doubled = let.bind("z", tirx.Mul(_absolute(x), _real(2)))
    doubled = let.bind("z", tirx.Min(_real(20), doubled))
    power = _Power(let, doubled, _LOG2_E, _LN2_HIGH, _LN2_LOW)
    factor = let.bind("s", power.factor())
    less_1 = tirx.Sub(factor, _real(1))
    y = let.bind("y", _fma(power.mantissa_minus_1(), factor, less_1))
    return let.around(_with_sign_of(x, tirx.Div(y, tirx.Add(y, _real(2)))))


def erf(x: Expr) -> Expr:
    """Return x + x p(x^2) near 0, else 1 - exp(-q(|x|)) with the sign of x."""
    let = _Bindings()
    x = let.bind("x", x)
    size = let.bind("z", _absolute(x))
    square = let.bind("q", tirx.Mul(x, x))
    near = let.bind("near", _fma(_polynomial(_ERF_SMALL, square), x, x))
    bounded = let.bind("z", tirx.Min(_real(4), size))
    logarithm = tirx.Sub(_real(0), _polynomial(_ERF_LARGE, bounded))
    power = _Power(let, let.bind("q", logarithm), _LOG2_E, _LN2_HIGH, _LN2_LOW)
    far = tirx.Sub(_real(1), tirx.Mul(power.mantissa(), power.factor()))
    is_near = tirx.LT(size, _real(_ERF_SPLIT))
    return let.around(_select(is_near, near, _with_sign_of(x, far)))


def _log_to(high: float, low: float, scale: float = 1.0) -> Callable[[Expr], Expr]:
    """Return a logarithm; in its base, ``high + low`` is log(2) and ``scale`` is log(e)."""

    def function(x: Expr) -> Expr:
        let = _Bindings()
        x = let.bind("x", x)
        is_denormal = tirx.Cast("int32", tirx.LT(x, _real(_SMALLEST_NORMAL)))
        small = let.bind("s", _from_bits(tirx.Mul(is_denormal, _integer(_ONE_BITS))))
        factor = _fma(small, _real(2.0**_MANTISSA_BITS - 1.0), _real(1))
        bits = let.bind("b", _bits(tirx.Mul(x, factor)))
        two_thirds = _integer(0x3F2AAAAB)
        exponent = tirx.shift_right(tirx.Sub(bits, two_thirds), _integer(_MANTISSA_BITS))
        exponent = let.bind("e", exponent)
        shifted = tirx.shift_left(exponent, _integer(_MANTISSA_BITS))
        f = let.bind("f", tirx.Sub(_from_bits(tirx.Sub(bits, shifted)), _real(1)))
        exponent = tirx.Cast("float32", exponent)
        n = let.bind("n", _fma(small, _real(-_MANTISSA_BITS), exponent))
        logarithm = _fma(tirx.Mul(f, f), _polynomial(_LOG, f), f)
        if scale != 1.0:
            logarithm = tirx.Mul(logarithm, _real(scale))
        if low:
            logarithm = _fma(n, _real(low), logarithm)
        result = _fma(n, _real(high), logarithm)
        # The difference exceeds the result only if x is infinity.
        result = tirx.Max(tirx.Sub(x, _real(_LARGEST)), result)
        is_zero = tirx.Cast("int32", tirx.EQ(x, _real(0)))
        special = tirx.Add(tirx.Mul(is_zero, _integer(_QUIET_BIT)), _integer(_NAN_BITS))
        return let.around(_select(tirx.GT(x, _real(0)), result, _from_bits(special)))

    return function


log = _log_to(_LN2_HIGH, _LN2_LOW)
log2 = _log_to(1.0, 0.0, _LOG2_E)
log10 = _log_to(_LOG10_2_HIGH, _LOG10_2_LOW, _LOG10_E)


DIVISION = "division"
_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "exp": exp,
    "exp2": exp2,
    "exp10": exp10,
    "log": log,
    "log2": log2,
    "log10": log10,
    "tanh": tanh,
    "sigmoid": sigmoid,
    "erf": erf,
}
NAMES = (*_FUNCTIONS, DIVISION)
# TVM registers each function in two dialects.
_BY_OPERATOR = {f"{dialect}.{name}": name for name in _FUNCTIONS for dialect in ("tirx", "prim")}
# Computed in float32 and rounded. bfloat16 is not replaced, see _below_casts.
_NARROW = frozenset({"float16"})
# TVM's simplifier substitutes the value of a Let for its variable, so compile time is exponential
# in the depth. Two nested functions take 10 ms more, five take seconds.
_MOST_BOUND = 14
_FLOATS = frozenset({"float16", "float32", "float64"})


def check_names(names: Sequence[str]) -> None:
    """Raise ValueError for a name that is not in ``NAMES``."""
    for name in names:
        if name not in NAMES:
            raise ValueError(f"there is no vector form of {name!r}; known: {', '.join(NAMES)}")


def blocks_with_calls(mod: IRModule, names: Sequence[str]) -> list[str]:
    """Return the innermost blocks with a replaceable call, in post-order."""
    chosen = frozenset(names)
    found: list[str] = []
    calls: list[Any] = []
    divisions: list[Any] = []

    def end_block(block: Any) -> None:
        if calls or divisions:
            left = _below_casts(block)
            wanted = not all(holds(left, call) for call in calls)
            if (wanted or _any_shared(divisions, block)) and not _inner_blocks(block):
                found.append(str(block.name_hint))
        calls.clear()
        divisions.clear()

    def note_call(call: Any) -> None:
        if _function(call, chosen) is not None:
            calls.append(call)

    entries: list[Any] = [(Call, note_call), (SBlock, end_block)]
    if DIVISION in chosen:
        entries.append((tirx.Div, divisions.append))
    structural_walk(mod[MAIN].body, entries)
    return found


def replace_calls(sch: TVMSchedule, block: Any, names: Sequence[str]) -> None:
    """Replace calls of the functions ``names`` in the body and the init of a block."""
    check_names(names)
    old = get_statement(sch, block)
    inner = _inner_blocks(old)
    if inner:
        raise ValueError(f"it has blocks inside ({', '.join(inner)}); pass one of them instead")
    chosen = frozenset(names)
    row = _row(old) if DIVISION in chosen else None

    left = _below_casts(old)

    def replace_call(call: Any) -> Any:
        function = _function(call, chosen)
        if function is None or holds(left, call):
            return call
        dtype = str(call.ty.dtype)
        (argument,) = call.args
        if len(found_in(argument, tirx.Let)) > _MOST_BOUND:
            return call
        if dtype in _NARROW:
            return tirx.Cast(dtype, function(tirx.Cast("float32", argument)))
        return function(argument)

    def replace_division(division: Any) -> Any:
        return _by_reciprocal(division) if _is_shared(division, row) else division

    entries: list[Any] = [(Call, replace_call)]
    if row is not None:
        entries.append((tirx.Div, replace_division))
    body = structural_map(old.body, entries)
    init = None if old.init is None else structural_map(old.init, entries)
    if body.same_as(old.body) and (init is None or init.same_as(old.init)):
        return
    new = changed_block(old, body=body, init=init)
    replace(sch, get_sref(sch, block), new, {old: new})


def _inner_blocks(block: Any) -> list[str]:
    return [str(other.name_hint) for other in found_in(block.body, SBlock)]


def _below_casts(block: Any) -> list[Any]:
    """Return the calls whose result is cast to a type for which TVM 0.27 cannot lower a Let.

    TVM duplicates the operand of a cast to bfloat16, but a vector Let must not occur twice; below a
    cast to an integer its analysis of bounds contradicts itself.
    """
    return [
        call
        for part in (block.body, block.init)
        if part is not None
        for cast in found_in(part, tirx.Cast)
        if str(cast.ty.dtype) not in _FLOATS
        for call in found_in(cast.value, Call)
    ]


def _function(call: Any, chosen: frozenset[str]) -> Callable[[Any], Any] | None:
    name = _BY_OPERATOR.get(called(call))
    if name not in chosen or name is None:
        return None
    dtype = str(call.ty.dtype)
    if (dtype != "float32" and dtype not in _NARROW) or _reads_bfloat16(call):
        return None
    return _FUNCTIONS[name]


def _reads_bfloat16(call: Any) -> bool:
    """Whether an argument is made of bfloat16 values: TVM 0.27 computes a Let of one wrongly."""
    return any(
        str(cast.value.ty.dtype) == "bfloat16"
        for argument in call.args
        for cast in found_in(argument, tirx.Cast)
    )


def _row(block: Any) -> tuple[list[Any], list[Any]]:
    """Return the block's variables, and the ones that index the last dimension it stores."""
    variables = [iter_var.var for iter_var in block.iter_vars]
    along: list[Any] = []
    for region in block.writes:
        if region.region:
            along += variables_in(region.region[-1].min)
    return variables, along


def _any_shared(divisions: Sequence[Any], block: Any) -> bool:
    return bool(divisions) and any(_is_shared(d, _row(block)) for d in divisions)


def _is_shared(division: Any, row: Any) -> bool:
    """Return whether adjacent stored elements share a divisor, so that a reciprocal pays off."""
    variables, along = row
    if str(division.ty.dtype) != "float32" or not along:
        return False
    if isinstance(division.a, tirx.FloatImm) and division.a.value == 1.0:
        return False
    if isinstance(division.b, tirx.FloatImm):
        return bool(2.0**-126 <= abs(division.b.value) <= 2.0**126)
    for var in variables_in(division.b):
        if not isinstance(var.ty, PrimType):
            continue  # a buffer
        if holds(along, var) or not holds(variables, var):
            return False
    return True


def _by_reciprocal(division: Any) -> Any:
    if isinstance(division.b, tirx.FloatImm):
        return tirx.Mul(division.a, tirx.FloatImm("float32", 1.0 / division.b.value))
    return tirx.Mul(division.a, tirx.Div(tirx.FloatImm("float32", 1.0), division.b))
