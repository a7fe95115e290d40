"""The values that integer arguments may have, read off the program."""

from __future__ import annotations

import pytest

from schedlang.tvm.analysis.index_ranges import integer_uses
from schedlang.workloads import from_script, matmul
from schedlang.workloads.workload import Workload


def program(indices: str, extra: str = "") -> Workload:
    """Make a program whose 12 elements of ``out`` are made of ``table[...]`` and the like.

    ``table`` has 1,000 rows of 40 elements, ``p`` and ``q`` are tensors of indices.
    """
    return from_script(f"""
@T.prim_func(s_tir=True)
def f(
    p: T.Buffer((12,), "int32"), q: T.Buffer((12,), "int64"), small: T.Buffer((12,), "int8"),
    bytes: T.Buffer((12,), "uint8"), table: T.Buffer((1000, 40), "float32"),
    out: T.Buffer((12,), "float32"),
):
{extra}
    for i in range(12):
        with T.sblock("out"):
            v = T.axis.spatial(12, i)
            out[v] = {indices}
""")


def ranges(workload: Workload) -> dict[str, tuple[int | None, int | None, bool]]:
    found = integer_uses(workload.mod).ranges
    return {workload.args[place].name: tuple(found[place]) for place in sorted(found)}  # type: ignore[misc]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("table[p[v], 0]", {"p": (0, 999)}),
        ("table[p[v] + 1, 0]", {"p": (-1, 998)}),
        ("table[p[v] - 2, 0]", {"p": (2, 1001)}),
        ("table[999 - p[v], v]", {"p": (0, 999)}),
        ("table[p[v] * 2, 0]", {"p": (0, 499)}),
        ("table[p[v] * 3 + v, 0]", {"p": (0, 329)}),
        ("table[p[v] * -1 + 7, 0]", {"p": (-992, 7)}),
        ("table[p[v] // 4, 0]", {"p": (0, 3999)}),
        ("table[T.truncdiv(p[v], 4), 0]", {"p": (0, 3999)}),
        # Any value will do: the program keeps it inside.
        ("table[T.min(T.max(p[v], 0), 999), 0]", {}),
        ("table[p[v] % 1000, 0]", {}),
        ("table[p[v] % 2000, 0]", {"p": (0, 999)}),
        # Only one end is kept inside.
        ("table[T.min(p[v], 999), 0]", {"p": (0, None)}),
        ("table[T.max(p[v], 0), 0]", {"p": (None, 999)}),
        # All its uses count.
        ("table[p[v], 0] + table[0, p[v]]", {"p": (0, 39)}),
        ("table[p[v], p[v] + 1]", {"p": (0, 38)}),
        ("table[p[v], q[v]]", {"p": (0, 999), "q": (0, 39)}),
        # Several share what they may add up to.
        ("table[p[v] + T.Cast('int32', q[v]), 0]", {"p": (0, 499), "q": (0, 500)}),
        ("table[p[v] * T.Cast('int32', q[v]), 0]", {"p": (0, 31), "q": (0, 31)}),
        ("table[p[v] + p[11 - v], 0]", {"p": (0, 499)}),
        # Small types that cannot leave the tensor on one side or on both.
        ("table[small[v], 0]", {"small": (0, None)}),
        ("table[T.Cast('int32', bytes[v]), 0]", {}),
        ("table[0, T.Cast('int32', bytes[v])]", {"bytes": (None, 39)}),
        # An index into a tensor of indices.
        ("table[p[q[v]], 0]", {"p": (0, 999), "q": (0, 11)}),
        # Negative indices that count from the end, and cases.
        ("table[T.if_then_else(p[v] < 0, p[v] + 1000, p[v]), 0]", {"p": (-1000, 999)}),
        ("table[T.Select(p[v] >= 0, p[v], p[v] + 1000), 0]", {"p": (-1000, 999)}),
        ("table[T.if_then_else(p[v] < 0, p[v] + 900, p[v]), 0]", {"p": (-900, 999)}),
        ("table[T.if_then_else(p[v] < 0, -1 - p[v], p[v]), 0]", {"p": (-1000, 999)}),
        ("table[T.if_then_else(p[v] < 0, p[v] + 2000, p[v]), 0]", {"p": (0, 999)}),
        ("table[T.if_then_else(v < 3, p[v], p[v] + 5), 0]", {"p": (0, 994)}),
        ("T.if_then_else(p[v] < 900, table[p[v], 0], T.float32(0))", {"p": (0, 999)}),
        # Divisors.
        ("T.Cast('float32', 7 // p[v])", {"p": (1, None)}),
        ("T.Cast('float32', T.int8(7) % small[v])", {"small": (1, None)}),
        ("T.Cast('float32', T.truncmod(p[v], p[v] + 3))", {"p": (-2, None)}),
        ("T.Cast('float32', 7 // (p[v] * p[v]))", {"p": (1, None)}),
        ("T.Cast('float32', 7 // (p[v] * (v + 1)))", {"p": (1, None)}),
        ("table[p[v] * v, 0]", {"p": (0, 90)}),
        ("table[v * (0 - p[v]), 0]", {"p": (-90, 0)}),
        ("table[100 // p[v], p[v]]", {"p": (1, 39)}),
        ("table[p[v], 0] / T.Cast('float32', q[v])", {"p": (0, 999)}),
        # Nothing to read.
        ("T.Cast('float32', p[v])", {}),
        ("table[T.shift_left(p[v], 2), 0]", {}),
        ("table[T.Cast('int32', table[v, 0] * T.float32(10)), 0]", {}),
    ],
)  # fmt: skip
def test_a_range_follows_from_the_use(
    expression: str, expected: dict[str, tuple[int | None, int | None]]
) -> None:
    found = ranges(program(expression))
    assert found == {name: (*bounds, False) for name, bounds in expected.items()}


CSR = """
@T.prim_func(s_tir=True)
def f(
    data: T.Buffer((64,), "float32"), columns: T.Buffer((64,), "int32"),
    start: T.Buffer((9,), "int32"), x: T.Buffer((100,), "float32"), y: T.Buffer((8,), "float32"),
):
    for i in range(8):
"""
IN_A_BLOCK = (
    CSR
    + """
        with T.sblock("y"):
            v = T.axis.spatial(8, i)
            T.reads(start[v : v + 2], data[0:64], columns[0:64], x[0:100])
            T.writes(y[v])
            y[v] = T.float32(0)
            for k in range(start[v + 1] - start[v]):
                y[v] = y[v] + data[start[v] + k] * x[columns[start[v] + k]]
"""
)
AROUND_A_BLOCK = (
    CSR
    + """
        for k in range(start[i], start[i + 1]):
            with T.sblock("y"):
                v, w = T.axis.spatial(8, i), T.axis.reduce(64, k)
                with T.init():
                    y[v] = T.float32(0)
                y[v] = y[v] + data[w] * x[columns[w]]
"""
)
BOUND = IN_A_BLOCK.replace(
    "for k in range(start[v + 1] - start[v]):",
    "begin: T.let = start[v]\n            for k in range(start[v + 1] - begin):",
)


@pytest.mark.parametrize("text", [IN_A_BLOCK, AROUND_A_BLOCK, BOUND])
def test_the_rows_of_a_sparse_matrix_are_offsets_into_its_data(text: str) -> None:
    found = ranges(from_script(text))
    assert found == {"columns": (0, 99, False), "start": (0, 64, True)}


def test_an_index_may_be_computed_by_an_earlier_block() -> None:
    found = ranges(
        from_script("""
@T.prim_func(s_tir=True)
def f(p: T.Buffer((12,), "int64"), x: T.Buffer((100,), "float32"), y: T.Buffer((12,), "float32")):
    place = T.sblock_alloc_buffer((12,), "int32")
    for i in range(12):
        with T.sblock("place"):
            v = T.axis.spatial(12, i)
            place[v] = T.Cast("int32", p[v]) * 2 + 1
    for i in range(12):
        with T.sblock("y"):
            v = T.axis.spatial(12, i)
            y[v] = x[place[v]]
""")
    )
    assert found == {"p": (0, 49, False)}


def test_the_place_of_a_store_counts() -> None:
    found = ranges(
        from_script("""
@T.prim_func(s_tir=True)
def f(p: T.Buffer((12,), "int32"), x: T.Buffer((12,), "float32"), y: T.Buffer((70,), "float32")):
    for i in range(12):
        with T.sblock("y"):
            v = T.axis.reduce(12, i)
            T.reads(p[v], x[v], y[0:70])
            T.writes(y[0:70])
            y[p[v]] = y[p[v]] + x[v]
""")
    )
    assert found == {"p": (0, 69, False)}


def test_a_guarded_use_does_not_contradict_one_that_always_happens() -> None:
    both = "T.if_then_else(p[v] < 0, table[p[v] + 100, 0], table[p[v], 0])"
    assert ranges(program(both)) == {"p": (0, 899, False)}
    wrapped = "T.if_then_else(p[v] < 0, table[p[v] + 1000, 0], table[p[v], 0])"
    assert ranges(program(wrapped)) == {"p": (0, 999, False)}
    contradiction = "table[p[v], 0] + T.if_then_else(p[v] > 999, table[p[v] - 1000, 0], 0.0)"
    assert ranges(program(contradiction)) == {"p": (0, 999, False)}


def test_uses_are_named_where_no_range_is_read() -> None:
    workload = program("table[T.shift_left(p[v], 2), T.Cast('int32', q[v]) // small[v]]")
    uses = integer_uses(workload.mod)
    assert uses.indices == {0, 1, 2} and uses.divisors == {2}


def test_a_program_without_integers_has_none() -> None:
    uses = integer_uses(matmul(8, 8, 8).mod)
    assert not uses.ranges and not uses.indices and not uses.divisors
