"""Structural keys of programs written for one rule each, and of the standard workloads."""

from __future__ import annotations

import collections
import os
import random
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import tvm
from tvm.script import from_source

import schedlang.workloads.workload
from schedlang import workloads
from schedlang.errors import WorkloadError
from schedlang.tvm import canonical_graph
from schedlang.tvm.canonical_graph import TermGraph, canonical_form
from schedlang.tvm.program import parse_script
from schedlang.workloads.structural_key import Structure, structure_of
from schedlang.workloads.workload import Workload

VECTORS = "A: T.Buffer((16,), 'float32'), B: T.Buffer((16,), 'float32')"
THREE = f"{VECTORS}, C: T.Buffer((16,), 'float32')"
TABLES = "A: T.Buffer((8, 8), 'float32'), B: T.Buffer((8, 8), 'float32')"
UNIT = "A: T.Buffer((1, 16), 'float32'), B: T.Buffer((16,), 'float32')"
ROWS = "A: T.Buffer((8, 8), 'float32'), B: T.Buffer((8,), 'float32')"


def structure(body: str, parameters: str = VECTORS, name: str = "main") -> Structure:
    lines = "\n".join("    " + line for line in body.strip().splitlines())
    return structure_of(
        from_source(f"@T.prim_func(s_tir=True)\ndef {name}({parameters}):\n{lines}")
    )


def block(statement: str, extra: str = "") -> str:
    return (
        "for i in range(16):\n"
        "    with T.sblock('b'):\n"
        f"        vi = T.axis.S(16, i)\n        {extra}\n        {statement}\n"
    )


def table(statement: str, loops: str = "i, j", kinds: str = "SS", init: str = "") -> str:
    return (
        f"for {loops} in T.grid(8, 8):\n"
        "    with T.sblock('b'):\n"
        f"        vi, vj = T.axis.remap('{kinds}', [i, j])\n        {init}\n        {statement}\n"
    )


def started(initial: str) -> str:
    return f"with T.init():\n            B[vi] = T.float32({initial})"


def value(text: str) -> str:
    return block(f"B[vi] = {text}")


# deplodock, part 3, "Structural Keys": the two operators that it shows.
OP_A = """
for i, j in T.grid(16, 1):
    with T.sblock("sum"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = A[vi] + B[vi]
"""
OP_A_PARAMETERS = f"{VECTORS}, C: T.Buffer((16, 1), 'float32')"


def test_the_papers_example() -> None:
    a = structure(OP_A, OP_A_PARAMETERS)
    b = structure(block("C[vi] = A[vi] - B[vi]"), THREE, name="other")
    assert a.family == b.family
    assert a.exact != b.exact
    assert a.exact == structure(block("C[vi] = A[vi] + B[vi]"), THREE).exact
    assert len({a.exact, a.family, b.exact}) == 3


@pytest.mark.parametrize(
    ("one", "other", "parameters"),
    [
        (value("A[vi] + T.float32(1)"), value("T.float32(1) + A[vi]"), VECTORS),
        (value("A[(vi * 2 + 1) // 2]"), value("A[T.min(vi, 20)]"), VECTORS),
        (value("A[15 - vi]"), value("A[3 + 12 - vi]"), VECTORS),
        (
            value("T.if_then_else(vi >= 3 and vi < 9, A[vi], T.float32(0))"),
            value("T.if_then_else(9 > vi and not vi < 3, A[vi], T.float32(0))"),
            VECTORS,
        ),
        (
            value("T.if_then_else(vi == 3 or vi == 5, A[vi], T.float32(0))"),
            value("T.if_then_else(not (5 != vi and vi - 3 != 0), A[vi], T.float32(0))"),
            VECTORS,
        ),
        (
            value("T.if_then_else(A[vi] > T.float32(0), A[vi], T.float32(0))"),
            value("T.if_then_else(T.float32(0) < A[vi], A[vi], T.float32(0))"),
            VECTORS,
        ),
        (
            block("B[vi] = A[vi]", "T.where(i < 9)"),
            block("B[vi] = A[vi]", "T.where(9 > i)"),
            VECTORS,
        ),
        # TVM joins the regions of loads in the order of the loads.
        (
            value("A[vi * 3 % 5] * (A[vi // 4] * A[vi % 7])"),
            value("(A[vi % 7] * A[vi // 4]) * A[vi * 3 % 5]"),
            VECTORS,
        ),
        (table("B[vi, vj] = A[vj, vi]"), table("B[vi, vj] = A[vj, vi]", "j, i"), TABLES),
        (
            table("B[vi] = B[vi] + A[vi, vj]", "i, j", "SR"),
            table("B[vi] = A[vi, vj] + B[vi]", "j, i", "SR"),
            ROWS,
        ),
        (
            block("B[vi] = A[vi]", "T.sblock_attr({'a': 1, 'b': [2, 'x']})"),
            block("B[vi] = A[vi]", "T.sblock_attr({'b': [2, 'x'], 'a': 1})"),
            VECTORS,
        ),
    ],
    ids=[
        "operands", "index", "constants", "condition", "or", "greater", "predicate", "loads",
        "free axes", "free axis and reduction", "annotations",
    ],
)  # fmt: skip
def test_equal_keys(one: str, other: str, parameters: str) -> None:
    ours, theirs = structure(one, parameters), structure(other, parameters)
    # Kin keep the order of axes, as traces do.
    assert replace(ours, kin="") == replace(theirs, kin="")


@pytest.mark.parametrize(
    ("one", "other", "parameters"),
    [
        (value("A[vi] - T.float32(1)"), value("T.float32(1) - A[vi]"), VECTORS),
        (value("A[vi] + T.float32(1)"), value("A[vi] + T.float32(1.0000001)"), VECTORS),
        (value("T.float32(0.0)"), value("T.float32(-0.0)"), VECTORS),
        (value("T.float32('inf')"), value("T.float32('nan')"), VECTORS),
        (
            value("A[vi] + (T.float32(1) + T.float32(2))"),
            value("(A[vi] + T.float32(1)) + T.float32(2)"),
            VECTORS,
        ),
        (
            value("T.if_then_else(vi < 9, A[vi], T.float32(0))"),
            value("T.Select(vi < 9, A[vi], T.float32(0))"),
            VECTORS,
        ),
        (value("T.if_then_else(vi < 9, A[vi], T.float32(0))"),
         value("T.if_then_else(vi <= 9, A[vi], T.float32(0))"), VECTORS),
        (block("B[vi] = A[vi]"), block("B[vi] = A[vi]", "T.where(i < 9)"), VECTORS),
        (block("B[vi] = A[vi]"), block("B[vi] = A[vi]", "T.sblock_attr({'a': 1})"), VECTORS),
        (block("B[vi] = A[vi]"), "T.func_attr({'op': 'mine'})\n" + block("B[vi] = A[vi]"), VECTORS),
        (block("B[vi] = A[vi]"), block("B[vi] = A[vi]").replace("range", "T.parallel"), VECTORS),
        (table("B[vi, vj] = A[vi, vj]"), table("B[vi, vj] = A[vj, vi]"), TABLES),
        # The order in which the elements of a sum are added counts.
        (
            table("B[0] = B[0] + A[vi, vj]", "i, j", "RR"),
            table("B[0] = B[0] + A[vi, vj]", "j, i", "RR"),
            ROWS,
        ),
        (
            table("B[vi] = B[vi] + A[vi, vj]", "i, j", "SR", started("0")),
            table("B[vi] = B[vi] + A[vi, vj]", "i, j", "SR", started("1")),
            ROWS,
        ),
        (
            table("B[vi] = B[vi] + A[vi, vj]", "i, j", "SR", started("0")),
            table("B[vi] = B[vi] + A[vi, vj]", "i, j", "SR"),
            ROWS,
        ),
        # Axes that say they are spatial, of iterations that depend on each other.
        (
            table("B[vi] = A[vi, vj] - B[vi]", "i, j"),
            table("B[vi] = A[vi, vj] - B[vi]", "j, i"),
            ROWS,
        ),
        (
            table("A[vi, vj] = A[vj, vi] + T.float32(1)", "i, j"),
            table("A[vi, vj] = A[vj, vi] + T.float32(1)", "j, i"),
            TABLES,
        ),
        (block("B[vi] = A[vi]"), block("B[vi] = A[vi]", "T.reads(A[0:16])"), VECTORS),
        # An index of a dimension of extent 1 that is not surely 0.
        (block("B[vi] = A[0, 0]"), block("B[vi] = A[vi, 0]"), UNIT),
        (
            block("B[vi] = A[vi]") + block("B[vi] = T.float32(1)"),
            block("B[vi] = T.float32(1)") + block("B[vi] = A[vi]"),
            VECTORS,
        ),
    ],
    ids=[
        "operands", "constant", "zero", "inf", "association", "select", "bound", "predicate",
        "annotation", "attribute", "parallel", "transposed", "reductions", "start", "no start",
        "overwritten", "in place", "regions", "out of bounds",
        "order of blocks",
    ],
)  # fmt: skip
def test_different_keys(one: str, other: str, parameters: str) -> None:
    assert structure(one, parameters).exact != structure(other, parameters).exact


def test_parameters_say_which_argument_is_which() -> None:
    one = structure(block("C[vi] = A[vi] - B[vi]"), THREE)
    permuted = ", ".join(f"{name}: T.Buffer((16,), 'float32')" for name in "CBA")
    other = structure(block("C[vi] = A[vi] - B[vi]"), permuted)
    assert one.exact == other.exact
    names = [("ABC"[a], "CBA"[b]) for a, b in zip(one.parameters, other.parameters, strict=True)]
    assert all(a == b for a, b in names)


def test_a_family_folds_operators_of_values_and_none_of_indices() -> None:
    def family(text: str) -> str:
        return structure(value(text)).family

    assert family("A[vi] - T.float32(2)") == family("T.float32(2) + A[vi]")
    chosen = "T.if_then_else(A[vi] {} T.float32(2), A[vi], T.float32(0))".format
    assert family(chosen("<")) == family(chosen(">=")) == family(chosen("=="))
    cast = "T.Cast('float32', T.Cast('int32', A[vi]) {} 2)".format
    assert family(cast("//")) == family(cast("%")) != family(cast("*"))
    assert family("A[vi // 2]") != family("A[vi % 2]")
    assert family("A[T.Cast('int32', A[vi]) + 2]") != family("A[T.Cast('int32', A[vi]) - 2]")
    inside = "T.if_then_else(vi {} 2, A[vi], T.float32(0))".format
    assert family(inside("<")) != family(inside(">"))
    assert family("A[vi] * T.float32(2)") != family("A[vi] + T.float32(2)")


@pytest.mark.parametrize(
    "body",
    [
        value("T.call_extern('float32', 'f', A[vi])"),
        "for i in range(2):\n    with T.sblock('b'):\n        v = T.axis.S(2, i)\n"
        "        M = T.match_buffer(B[v * 8 : v * 8 + 8], (8,), 'float32', offset_factor=1)\n"
        "        for j in range(8):\n            M[j] = A[v * 8 + j]",
        value("A[vi // (vi - vi)]"),
        value("+".join(["A[vi]"] * 200)),
    ],
    ids=["effects", "match_buffer", "division by 0", "deep"],
)
def test_what_is_not_analysed_is_compared_by_tvm(body: str) -> None:
    one = structure(body)
    assert one.exact == one.family
    assert one.exact.startswith("tvm:")
    assert one.parameters == (0, 1)
    assert one == structure(body, VECTORS, name="other")
    assert one.exact != structure(body, VECTORS.replace("B: T.Buffer((16", "B: T.Buffer((17")).exact


def test_a_scheduled_program_keeps_its_loops() -> None:
    def split(factor: int, reorder: bool) -> str:
        schedule = tvm.s_tir.Schedule(workloads.matmul(32, 32, 32).mod)
        i, j, _ = schedule.get_loops(schedule.get_sblock("C"))
        outer, inner = schedule.split(i, [None, factor])
        if reorder:
            schedule.reorder(j, outer, inner)
        return structure_of(schedule.mod).exact

    assert len({split(4, False), split(8, False), split(4, True)}) == 3
    assert split(4, False) == split(4, False)


def test_layout_free_buffers_follow_their_parameters() -> None:
    marked = "T.func_attr({{'layout_free_buffers': [{}]}})\n".format
    body = block("C[vi] = A[vi] - B[vi]")
    swapped = ", ".join(f"{name}: T.Buffer((16,), 'float32')" for name in "BAC")
    one = structure(marked(0) + body, THREE).exact
    assert one == structure(marked(1) + body, swapped).exact
    assert one != structure(marked(1) + body, THREE).exact


def test_blocks_are_those_below_the_root() -> None:
    assert structure_of(workloads.SFM().mod).blocks == ("row_max", "exponent", "row_sum", "softmax")


def test_a_module_of_two_functions_is_refused() -> None:
    func = workloads.GMM().func
    with pytest.raises(WorkloadError, match=r"a module with one, not with 2: give it mod\["):
        structure_of(tvm.IRModule({"f": func, "g": func.with_attr("global_symbol", "g")}))


def test_only_what_computes_the_same_shares_a_key_among_the_standard_workloads() -> None:
    every = {workloads.get(name) for name in workloads.names()}
    by_key = collections.defaultdict(set)
    for workload in every:
        by_key[workload.exact_key].add(workload.name)
    # One matrix product is a batch of one.
    assert [names for names in by_key.values() if len(names) > 1] == [{"GMM", "matmul"}]
    assert not any(key.startswith("tvm:") for key in by_key)
    assert len({workload.family_key for workload in every}) == len(by_key)


KEYS = {
    "GMM": "0e1dbfc95ffd69f71b72a2e31864ee2f",
    "C2D": "78775b3fb903b86a766b9ad60640c2aa",
    "SFM": "38de7cef18e30465db9399597beee704",
    "T2D": "fdbf7392924f85138fe19bee2074667f",
}


def test_keys_are_those_of_earlier_versions() -> None:
    """If they changed on purpose, raise ``workloads.keys.structure.RULES`` too: keys are stored."""
    assert {name: workloads.get(name).exact_key for name in KEYS} == KEYS


def test_keys_are_the_same_in_another_process() -> None:
    code = (
        "from schedlang import workloads as w; print(*(k for name in ('CBR', 'TBG') "
        "for k in (w.get(name).exact_key, w.get(name).family_key)))"
    )
    env = {**os.environ, "PYTHONHASHSEED": "12"}
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    ).stdout
    both = [workloads.CBR(), workloads.TBG()]
    assert printed.split() == [key for w in both for key in (w.exact_key, w.family_key)]


def test_equal_workloads_have_equal_keys_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def counted(func: Any) -> Structure:
        made.append(func)
        return structure_of(func)

    monkeypatch.setattr(schedlang.workloads.workload, "structure_of", counted)
    workload = workloads.GMM(12, 12, 12)
    assert not made
    assert workload.exact_key != workload.family_key
    assert len(made) == 1
    again = workloads.from_script(workload.script())
    assert (again, again.exact_key) == (workload, workload.exact_key)
    assert isinstance(again, Workload)


def pairs_graph(order: list[int], edges: list[tuple[int, int]]) -> tuple[TermGraph, int]:
    """Leaves, made in the given order, and a term for each unordered pair of them."""
    graph, leaves = TermGraph(), {}
    for leaf in order:
        leaves[leaf] = graph.leaf("leaf")
    pairs = [graph.term("pair", (), (leaves[a], leaves[b])) for a, b in edges]
    return graph, graph.term("root", (), pairs)


HEXAGON = [(k, (k + 1) % 6) for k in range(6)]
TRIANGLES = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)]


def test_ties_that_refinement_cannot_break_are_broken() -> None:
    """Each leaf of a hexagon and of two triangles has two neighbours like itself."""
    orders = ([0, 1, 2, 3, 4, 5], [3, 0, 4, 1, 5, 2], [5, 1, 3, 2, 0, 4])
    texts = [
        {canonical_form(*pairs_graph(order, edges)).text for order in orders}
        for edges in (HEXAGON, TRIANGLES)
    ]
    assert [len(found) for found in texts] == [1, 1]
    assert texts[0] != texts[1]


def test_symmetric_choices_are_tried_once() -> None:
    """384 orders of four pairs, for each choice of a leaf of the hexagon or of the triangles: more
    than are compared, if those that a symmetry takes to each other all counted.
    """
    edges = HEXAGON + [(6 + a, 6 + b) for a, b in TRIANGLES]
    edges += [(12 + 2 * k, 13 + 2 * k) for k in range(4)]
    orders = [random.Random(seed).sample(range(20), 20) for seed in range(6)]
    assert len({canonical_form(*pairs_graph(order, edges)).text for order in orders}) == 1


def test_a_search_that_is_cut_off_still_tells_graphs_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canonical_graph, "LARGEST_SEARCH", 1)
    order = list(range(6))
    assert (
        canonical_form(*pairs_graph(order, HEXAGON)).text
        != canonical_form(*pairs_graph(order, TRIANGLES)).text
    )


BITS = """@T.prim_func(s_tir=True)
def main(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8, 8), "int32"), C: T.Buffer((8, 8), "int32")):
    for i, j in T.grid(8, 8):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = {}
"""
A, B = "A[vi, vj]", "B[vi, vj]"


@pytest.mark.parametrize("operator", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_bitwise_operators_commute(operator: str) -> None:
    one, other = (
        structure_of(parse_script(BITS.format(f"T.{operator}({left}, {right})")))
        for left, right in (((f"{A} + 1"), B), (B, (f"{A} + 1")))
    )
    assert one.exact == other.exact and not one.exact.startswith("tvm:")


def test_operators_of_bits_differ_by_kind_order_and_operands() -> None:
    values = [
        f"T.{name}({left}, {right})"
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right")
        for left, right in ((f"{A} + 1", B), (f"{A} + 1", "T.int32(2)"), (f"{A} + 1", "T.int32(3)"))
    ]
    values += [f"T.{name}({B}, {A} + 1)" for name in ("shift_left", "shift_right")]
    values += [f"T.bitwise_not({A} + 1)", f"T.bitwise_not({B})"]
    structures = [structure_of(parse_script(BITS.format(value))) for value in values]
    assert not any(one.exact.startswith("tvm:") for one in structures)
    assert len({one.exact for one in structures}) == len(values)
