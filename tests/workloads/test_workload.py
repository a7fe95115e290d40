"""Making workloads from programs, their keys, arguments and the errors of what cannot be one."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import pytest
import tvm
from tvm import te, tirx
from tvm.script import from_source

from schedlang import workloads
from schedlang.errors import WorkloadError
from schedlang.tvm import program
from schedlang.workloads import as_workload, from_module, from_prim_func, from_script, from_te
from schedlang.workloads.workload import Argument, Workload

VECTOR = "T.Buffer((16,), 'float32')"


def script(body: str, parameters: str = f"A: {VECTOR}, B: {VECTOR}", name: str = "main") -> str:
    lines = "\n".join("    " + line for line in body.strip().splitlines())
    return f"@T.prim_func(s_tir=True)\ndef {name}({parameters}):\n{lines}\n"


def block(statement: str, name: str = "b", extent: int = 16) -> str:
    return (
        f"for i in range({extent}):\n"
        f"    with T.sblock('{name}'):\n"
        f"        vi = T.axis.S({extent}, i)\n"
        f"        {statement}\n"
    )


ADD = block("B[vi] = A[vi] + T.float32(1)")


def roles(text: str) -> list[str]:
    return [argument.role for argument in from_script(text).args]


def test_arguments_have_name_shape_dtype_and_role() -> None:
    assert workloads.matmul(4, 5, 6).args == (
        Argument("A", (4, 6), "float32", "input"),
        Argument("B", (6, 5), "float32", "input"),
        Argument("C", (4, 5), "float32", "output"),
    )


def test_scalars_of_rank_0_are_arguments() -> None:
    text = script(block("B[vi] = A[()]"), f"A: T.Buffer((), 'float32'), B: {VECTOR}")
    assert from_script(text).args[0].shape == ()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (ADD, ["input", "output"]),
        (block("A[vi] = A[vi] + B[vi]"), ["inout", "input"]),
        (ADD + block("B[vi] = B[vi] * T.float32(2)", "c"), ["input", "output"]),
        (
            block("B[vi] = A[vi]", extent=8) + block("B[vi] = B[vi] * T.float32(2)", "c"),
            ["input", "inout"],
        ),
        (block("B[vi] = A[vi]", extent=8), ["input", "output"]),
        (block("B[vi] = T.float32(0)"), ["input", "output"]),
        (
            "for i in range(16):\n"
            "    with T.sblock('b'):\n"
            "        vi = T.axis.S(16, i)\n"
            "        T.where(i < 9)\n"
            "        B[vi] = A[vi]\n" + block("A[vi] = B[vi]", "c"),
            ["inout", "inout"],
        ),
    ],
    ids=["copy", "in place", "rewritten", "half filled", "half", "unread", "predicate"],
)
def test_roles_say_what_the_caller_must_fill(body: str, expected: list[str]) -> None:
    assert roles(script(body)) == expected


def test_a_reductions_accumulator_is_an_output() -> None:
    body = """
for i in range(16):
    with T.sblock("b"):
        vi = T.axis.R(16, i)
        with T.init():
            B[0] = T.float32(0)
        B[0] = B[0] + A[vi]
"""
    assert roles(script(body)) == ["input", "output"]


def test_a_blockized_reduction_keeps_its_roles() -> None:
    schedule = tvm.s_tir.Schedule(workloads.matmul(32, 32, 32).mod)
    loops = schedule.get_loops(schedule.get_sblock("C"))
    inner = [schedule.split(loop, [None, 8]) for loop in loops]
    schedule.reorder(*[outer for outer, _ in inner], *[low for _, low in inner])
    schedule.blockize(inner[0][1])
    assert [a.role for a in from_module(schedule.mod).args] == ["input", "input", "output"]


def test_a_copy_has_no_flops() -> None:
    assert from_script(script(block("B[vi] = A[vi]"))).flops == 0.0


def test_a_program_with_let_expressions_is_a_workload() -> None:
    """Schedules with ``vector_math`` have them, and ``sl.apply`` gives such programs back."""
    a, x = te.placeholder((16,), name="A"), tirx.Var("x", "float32")
    square = te.compute((16,), lambda i: tirx.Let(x, a[i] + 1.0, x * x), name="B")
    assert from_te([a, square]).flops == 16.0


LOOP = """
for i in range(16):
    with T.sblock("b"):
        vi = T.axis.S(16, i)
        T.reads(A[0:16], N[0:16])
        T.writes(B[vi])
        B[vi] = T.float32(0)
        {loop}: B[vi] = B[vi] + A[{index}]
"""


@pytest.mark.parametrize(
    ("loop", "index", "flops"),
    [
        ("for k in range(4)", "k", 64),
        ("for j in range(4):\n            for k in range(j + 1)", "k", 256),  # the longest counts
        ("for k in range(vi + 1)", "k", 0),
        ("for k in range(N[vi])", "k", 0),
        ("for k in range(N[vi], N[vi + 1])", "k", 0),
        ("for k in range(T.min(N[vi], 4))", "k", 0),
        ("for n, k in T.grid(N[0], 4)", "k", 0),
        ("while B[vi] < A[vi]", "vi", 0),
        ("for k in range(4)", "T.call_extern('int32', 'abs', k)", 0),
    ],
)
def test_operations_are_counted_where_the_loops_say_how_many(
    loop: str, index: str, flops: float
) -> None:
    arguments = f"A: {VECTOR}, N: T.Buffer((17,), 'int32'), B: {VECTOR}"
    assert from_script(script(LOOP.format(loop=loop, index=index), arguments)).flops == flops


def test_equality_and_key_ignore_names() -> None:
    one = from_script(script(ADD), name="one")
    renamed = ADD.replace("A", "Q").replace("'b'", "'other'").replace("vi", "w")
    two = from_script(script(renamed, f"Q: {VECTOR}, B: {VECTOR}", name="kernel"))
    assert (one, hash(one), one.key) == (two, hash(two), two.key)
    assert two.name == "kernel"
    assert two.mod["main"].attrs["global_symbol"] == two.function_name == "main"


def test_keys_differ_by_shape_dtype_and_operation() -> None:
    every = [w for name in workloads.names() for w in workloads.standard(name)]
    every += [workloads.GMM(dtype="float16"), workloads.GMM(dtype="int8"), workloads.GMM(batch=2)]
    every += [from_script(script(ADD)), from_script(script(ADD.replace("+", "*")))]
    assert len({workload.key for workload in every}) == len(every)
    assert workloads.GMM(64) != workloads.GMM()
    assert workloads.GMM() != "GMM"


def test_key_is_the_same_in_another_process() -> None:
    code = "from schedlang import workloads; print(workloads.GMM().key, workloads.SFM().key)"
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert printed.split() == [workloads.GMM().key, workloads.SFM().key]


def test_script_json_and_pickle_round_trip() -> None:
    for name in workloads.names():
        workload = workloads.get(name)
        assert from_script(workload.script()) == workload
        assert from_module(program.from_json(program.to_json(workload.mod))) == workload
        assert pickle.loads(pickle.dumps(workload)) == workload


def test_printing_shows_the_source_or_embeds_the_script() -> None:
    assert str(workloads.SFM(4, 4)) == "sl.workloads.SFM(m=4, n=4)"
    own = from_script(script(ADD))
    assert own.source == ""
    assert "T.prim_func" in str(own)


def test_attributes_are_kept() -> None:
    text = script("T.func_attr({'layout_free_buffers': [1], 'op': 'mine'})\n" + ADD, name="f")
    attrs = from_script(text).func.attrs
    assert list(attrs["layout_free_buffers"]) == [1]
    assert (attrs["op"], attrs["global_symbol"]) == ("mine", "main")


def test_a_function_without_a_symbol_is_named_main() -> None:
    func = from_source(script(ADD)).without_attr("global_symbol").without_attr("s_tir")
    workload = from_prim_func(func)
    assert workload == from_script(script(ADD))
    assert workload.name == "main"


def test_as_workload_takes_all_that_it_says() -> None:
    a = te.placeholder((16,), "float32", "A")
    b = te.compute((16,), lambda i: a[i] + 1.0, name="plus")
    workload = as_workload([a, b])
    assert workload.name == "plus"
    assert as_workload((a, b)) == as_workload(workload.mod) == as_workload(workload.func)
    assert as_workload(workload) is workload


def two_functions() -> tvm.IRModule:
    module = {"f": from_source(script(ADD, name="f"))}
    module["g"] = from_source(script(ADD.replace("+", "*"), name="g"))
    return tvm.IRModule(module)


def test_from_module_picks_one_function() -> None:
    module = two_functions()
    assert from_module(module, function="f") == from_script(script(ADD))
    assert from_module(module, function="g").name == "g"
    assert from_module(module, name="mine", function="g").name == "mine"


A = te.placeholder((16,), "float32", "A")
PLUS = te.compute((16,), lambda i: A[i] + 1.0, name="plus")
N = te.var("n")
SYMBOLIC = te.placeholder((4, N), "float32", "S")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: from_prim_func(
                te.create_prim_func(
                    [SYMBOLIC, te.compute((4, N), lambda i, j: SYMBOLIC[i, j] + 1.0)]
                )
            ),
            r"argument 'S' has the symbolic extent n in dimension 1, .*func.specialize"
            r"\(\{func.params\[0\]: tvm.tirx.decl_buffer\(\(4, 128\), 'float32'\)\}\) for 128",
        ),
        (
            lambda: from_module(tvm.IRModule({})),
            r"the module has no PrimFunc; .*sl.import_network\(mod\)",
        ),
        (
            lambda: from_module(two_functions()),
            r"the module has 2 PrimFuncs \(f, g\); name one with .*function=",
        ),
        (
            lambda: from_module(two_functions(), function="h"),
            r"no PrimFunc 'h' in the module; it has f, g",
        ),
        (lambda: Workload(two_functions(), "w"), r"workload 'w': a workload is one PrimFunc"),
        (
            lambda: from_script(script("for i in range(16):\n    B[i] = A[i]")),
            r"no blocks below its root, so there is nothing to schedule; .*T.sblock",
        ),
        (
            lambda: from_script(script(block("B[vi] = T.float32(0)"), f"A: T.handle, B: {VECTOR}")),
            r"argument 'A' is a bare handle without a shape; .*T.match_buffer",
        ),
        (
            lambda: from_script(script(ADD, f"A: {VECTOR}, B: {VECTOR}, n: T.int32")),
            r"argument 'n' is a scalar \(int32\); fix its value with func.specialize",
        ),
        (
            lambda: from_script(
                script(
                    "A = T.match_buffer(a, (16,), 'float32', strides=[2])\n" + ADD,
                    f"a: T.handle, B: {VECTOR}",
                )
            ),
            r"argument 'A' has strides or an offset; only compact",
        ),
        (
            lambda: from_script(
                script(ADD, f"A: T.Buffer((16,), 'float32', scope='shared'), B: {VECTOR}")
            ),
            r"argument 'A' lives in scope 'shared'",
        ),
        (
            lambda: from_script(script(ADD, f"A: T.Buffer((0,), 'float32'), B: {VECTOR}")),
            r"argument 'A' has extent 0 in dimension 0; every extent must be at least 1",
        ),
        (
            lambda: from_script(script(ADD, f"A: T.Buffer((-4,), 'float32'), B: {VECTOR}")),
            r"argument 'A' has extent -4 in dimension 0",
        ),
        (
            lambda: from_script(script(block("B[vi] = A[vi]", extent=0))),
            r"loop 'i' runs 0 times",
        ),
        (
            lambda: from_script(script("C = T.sblock_alloc_buffer((0,), 'float32')\n" + ADD)),
            r"intermediate buffer 'C' has extent 0 in dimension 0",
        ),
        (
            lambda: from_script(
                script(
                    "C = T.sblock_alloc_buffer((16,), 'float32')\n" + block("C[vi] = A[vi]"),
                )
            ),
            r"it writes none of its arguments",
        ),
        (lambda: from_te([]), r"from_te: the list is empty"),
        (lambda: from_te([A, 3]), r"from_te: item 1 is a int, not a te.Tensor"),
        (lambda: from_te([PLUS]), r"the results read A, which the list lacks"),
        (lambda: from_prim_func(3), r"from_prim_func takes a PrimFunc, not a int"),
        (lambda: from_module(3), r"from_module takes an IRModule, not a int"),
        (lambda: from_script(3), r"from_script takes TVMScript text, not a int"),
        (lambda: from_script("def f(:"), r"from_script: line 1: invalid syntax: 'def f\(:'"),
        (
            lambda: from_script(script(ADD.replace("A[vi]", "Q[vi]"))),
            r"from_script: line 6: Undefined variable: Q: 'B\[vi\] = Q\[vi\]",
        ),
        (lambda: from_script("x = 1"), r"the text defines no function"),
        (lambda: from_script(""), r"the text defines no function"),
        (lambda: as_workload(3), r"expected a Workload, a PrimFunc, an IRModule .* not an int$"),
        (lambda: as_workload("GMM"), r"the text 'GMM'; for TVMScript text use .*from_script"),
        (lambda: as_workload(workloads.GMM), r"not the function GMM; call it, and"),
        (lambda: as_workload([]), r"not a list without items; list the placeholders"),
    ],
)
def test_errors_say_what_is_wrong_and_what_to_do(make: Any, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        make()


def test_the_remedy_for_a_symbolic_shape_works() -> None:
    sum_of = te.compute((4, N), lambda i, j: SYMBOLIC[i, j] + 1.0, name="T")
    func = te.create_prim_func([SYMBOLIC, sum_of])
    with pytest.raises(WorkloadError) as info:
        from_prim_func(func)
    remedy = str(info.value).partition("fix it with ")[2].partition(" for 128")[0]
    fixed = eval(remedy, {"func": func, "tvm": tvm})
    assert [argument.shape for argument in from_prim_func(fixed).args] == [(4, 128), (4, 128)]


def product(init: str, update: str = "C[vi] = C[vi] + A[vi, vk]") -> str:
    lines = "".join(f"            {line}\n" for line in init.splitlines())
    return script(
        "for i, k in T.grid(16, 8):\n"
        "    with T.sblock('total'):\n"
        "        vi, vk = T.axis.remap('SR', [i, k])\n"
        "        T.reads(A[vi, vk])\n"
        "        T.writes(C[vi])\n"
        f"        with T.init():\n{lines}"
        f"        {update}\n",
        "A: T.Buffer((16, 8), 'float32'), C: T.Buffer((16,), 'float32')",
    )


@pytest.mark.parametrize(
    "init",
    [
        "T.evaluate(0)",
        "if vi < 5:\n    C[vi] = T.float32(0)",
        "C[0] = T.float32(0)",
        "C[15 - vi] = T.float32(0)",
    ],
    ids=["nothing", "under a condition", "one element", "other elements"],
)
def test_an_init_that_does_not_store_what_the_update_reads_is_refused(init: str) -> None:
    with pytest.raises(WorkloadError, match=r"block 'total' reads 'C' in its update.*leave T.init"):
        from_script(product(init))


@pytest.mark.parametrize(
    "init",
    ["C[vi] = T.float32(0)", "T.evaluate(0)\nC[vi] = A[vi, 0] * T.float32(0)"],
    ids=["zero", "zero after nothing"],
)
def test_an_init_that_stores_what_the_update_reads_makes_an_output(init: str) -> None:
    assert [one.role for one in from_script(product(init)).args] == ["input", "output"]


def test_an_init_may_fill_a_row_in_a_loop() -> None:
    text = script(
        "for i, k in T.grid(16, 8):\n"
        "    with T.sblock('total'):\n"
        "        vi, vk = T.axis.remap('SR', [i, k])\n"
        "        T.reads(A[vi, vk])\n"
        "        T.writes(C[vi, 0:4])\n"
        "        with T.init():\n"
        "            for j in range(4):\n"
        "                C[vi, j] = T.float32(0)\n"
        "        for m in range(4):\n"
        "            C[vi, m] = C[vi, m] + A[vi, vk]\n",
        "A: T.Buffer((16, 8), 'float32'), C: T.Buffer((16, 4), 'float32')",
    )
    assert from_script(text).args[1].role == "output"
