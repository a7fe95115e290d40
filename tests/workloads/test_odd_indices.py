"""Every kind of expression in an index, a bound or a condition: such programs have keys, too.

Two of them have the same key if and only if they compute the same, whatever names they have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from schedlang.tvm.program import structural_key
from schedlang.workloads import from_script
from schedlang.workloads.workload import Workload

# No two are the same function of ``i``, one of 16 numbers.
INTEGERS = """
i | i + 1 | i * 3 // 2 | i % 5 | T.min(i, 3) | T.max(i - 2, 0) | T.truncmod(i, 3)
T.abs(i - 3) | T.Select(i < 3, i, 0) | T.if_then_else(i < 4, i, 0) | T.Cast("int32", i < 3)
T.shift_right(i, 1) | T.bitwise_and(i, 7) | T.bitwise_xor(i, 1) | T.bitwise_or(i, 1)
T.bitwise_not(i) + 16 | T.popcount(i) | T.clz(i) % 16
X[i] | X[X[i]] | X[i] + i | T.Cast("int32", Y[i]) | T.Cast("int32", T.floor(Y[i]))
T.Cast("int32", T.floor(Y[i] * T.float32(0.5))) | T.Cast("int32", T.isnan(Y[i]))
T.Cast("int32", T.Cast("float32", i) * T.float32(0.5))
T.Cast("int32", T.Cast("float32", i) * T.float32(0.25))
T.Cast("int32", T.round(T.Cast("float32", i) * T.float32(0.3)))
T.Cast("int32", T.sqrt(T.Cast("float32", i))) | T.Cast("int32", T.exp(T.Cast("float32", i)))
T.Cast("int32", T.pow(T.Cast("float32", i), T.float32(0.5)))
T.Cast("int32", T.Cast("float16", i) * T.float16(0.1)) | T.Cast("int32", T.Cast("int8", i * 9))
T.Cast("int32", T.Cast("uint8", i * 99)) | T.reinterpret("int32", T.Cast("float32", i)) % 16
T.q_multiply_shift(i, 1, 2, 3) | T.floordiv(i, X[0]) | T.call_extern("int32", "f", i)
T.call_pure_extern("int32", "f", i) | T.call_pure_extern("int32", "g", i)
T.if_then_else(Y[i] < T.float32(0.5), i, 1) | T.Select(X[i] < 5 and i < 7, 2, i)
"""
INDICES = [text.strip() for text in INTEGERS.replace("\n", "|").split("|") if text.strip()]
PLACES = {
    "load": "B[i] = A[{0}]",
    "several loads": "B[i] = A[{0}] * (A[i] - A[0])",
    "store": "B[{0}] = A[i]",
    "padding": "B[i] = T.if_then_else({0} < 7, A[{0}], T.float32(0))",
    "guard": "T.where({0} < 7)\n            B[i] = A[i]",
    "value": "B[i] = T.Cast('float32', {0})",
    "bound": "for j in range({0}):\n                B[i] = B[i] + A[j]",
    "first": "for j in range({0}, {0} + 2):\n                B[i] = B[i] + A[j]",
}


def program(body: str) -> Workload:
    """A block that runs ``body`` for 16 values of ``i``; ``T.where`` is about the loop."""
    body = re.sub(r"T\.where\(.*\)", lambda found: re.sub(r"\bi\b", "n", found[0]), body)
    return from_script(
        f"""
@T.prim_func(s_tir=True)
def main(A: T.Buffer((16,), "float32"), X: T.Buffer((16,), "int32"),
         Y: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for n in range(16):
        with T.sblock("b"):
            i = T.axis.spatial(16, n)
            {body}
""",
        "odd",
    )


def reduction(index: str) -> Workload:
    """A sum over elements at an odd index, which no nest of its own loops has."""
    return from_script(
        f"""
@T.prim_func(s_tir=True)
def main(A: T.Buffer((16, 16), "float32"), X: T.Buffer((16,), "int32"),
         Y: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for n, m in T.grid(16, 16):
        with T.sblock("b"):
            i, k = T.axis.remap("SR", [n, m])
            with T.init():
                B[i] = T.float32(0)
            B[i] = B[i] + A[{index}, k]
""",
        "odd",
    )


def made(place: str) -> Iterator[tuple[str, Workload]]:
    for index in INDICES:
        yield index, reduction(index) if place == "sum" else program(PLACES[place].format(index))


@pytest.mark.slow
@pytest.mark.parametrize("place", [*PLACES, "sum"])
def test_every_program_has_keys_of_its_own(place: str) -> None:
    found: dict[str, str] = {}
    for index, workload in made(place):
        structure = workload.structure
        assert structure.exact and structure.family and structure.kin, index
        if place != "guard":  # some conditions hold for the same numbers
            assert structure.exact not in found, (index, found[structure.exact])
        found[structure.exact] = index
        renamed = re.sub(r"\b(A|B|X|Y|i|n)\b", r"\1_", workload.script())
        again = from_script(renamed, "renamed")
        assert structural_key(again.mod) == workload.key
        assert again.exact_key == structure.exact, index


def test_numbers_in_an_index_do_not_count_for_kin() -> None:
    """Bilinear interpolation: the factor follows from the shapes."""
    half, quarter = (
        program(f"B[i] = A[T.Cast('int32', T.Cast('float32', i) * T.float32({factor}))]")
        for factor in (0.5, 0.25)
    )
    assert half.kin_key == quarter.kin_key
    assert half.exact_key != quarter.exact_key
