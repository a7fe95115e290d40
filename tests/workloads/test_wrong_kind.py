"""What is given in place of a program or of a network: what it is, and what to do."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import te
from tvm.script import tirx as T

import schedlang as sl
from schedlang.workloads import from_prim_func
from schedlang.workloads.wrong_kind import _KNOWN

WORKLOAD = sl.workloads.matmul(4, 4, 4)
A = te.placeholder((4,), name="A")
B = te.compute((4,), lambda i: A[i] + 1, name="B")


@sl.module
def columns_in_parallel(sch: sl.Schedule, block: sl.BlockRV) -> None:
    sch.parallel(sch.get_loops(block)[0])


def made() -> sl.Workload:
    return WORKLOAD


# What is given, what a program's error says, and what a network's says.
GIVEN: dict[str, tuple[Any, str, str]] = {
    "nothing": (None, "not None; the function .* lack a return", "not None; .*import_network"),
    "number": (3, "not an int$", r"not an int; sl\.import_network\(model, example_inputs\)"),
    "array": (np.zeros(3), "a numpy array; .*matmul.*inputs=", r"import_network\(model, \(array"),
    "arrays": ([np.zeros(3)], "a list with a numpy array as item 0; describe", "the model comes"),
    "tensor": (B, r"a te.Tensor; list the placeholders and the results: \[a, b", r"sl\.tune\(pro"),
    "empty": ([], "a list without items; list the placeholders", "give one network or more"),
    "mixed": ([A, 3], "a list with an int as item 1", "a list with an int as item 1; sl.import"),
    "workloads": ([WORKLOAD], "a Workload as item 0; tune one program at a time", "one program at"),
    "function": (made, "the function made; call it, and give what it returns", "call it where"),
    "class": (
        sl.Workload,
        "the class Workload, not an instance of it",
        r"make one: Workload\(\.\.\.",
    ),
    "schedule": (sl.Schedule(WORKLOAD), "a Schedule; .*schedule.workload", r"sl\.tune\(program\)"),
    "trace": (sl.Schedule(WORKLOAD).trace, "a Trace; .*trace.workload", r"sl\.tune\(program\)"),
    "space": (sl.default_space(), r"a Space; .*sl\.tune\(program, space=space\)", "import_network"),
    "target": (sl.Target("cpu"), r"a Target; .*tune\(program, target\)", "import_network"),
    "operator": ("matmul", r"'matmul'; .*workloads\.get\(name\)", "an operator is a program"),
    "script": ("@T.prim_func\ndef f(): ...", r"from_script\(text\)", r"TVMScript text; it is one"),
    "python": (
        Path("mine.py"),
        "'mine.py'; import the file and give a program",
        "give a model of it",
    ),
    "onnx": (Path("m.onnx"), r"import_network\('m.onnx'\), then sl.tune_network", "'m.onnx'"),
}


@pytest.mark.parametrize("name", GIVEN)
def test_a_wrong_kind_is_named_with_what_to_do(name: str) -> None:
    given, program, network = GIVEN[name]
    with pytest.raises(sl.WorkloadError, match=program):
        sl.tune(given)
    with pytest.raises(sl.WorkloadError, match=program):
        sl.Schedule(given)
    with pytest.raises(sl.NetworkError, match=network):
        sl.tune_network(given)
    with pytest.raises(sl.NetworkError, match=network):
        sl.compile_network(given)


def test_kinds_of_torch() -> None:
    torch = pytest.importorskip("torch", reason="needs torch: pip install 'schedlang[torch]'")
    linear, example = torch.nn.Linear(4, 4), (torch.ones(2, 4),)
    traced = torch.jit.trace(linear, example)
    network = sl.import_network(linear, example)
    of_program = {
        linear: r"a torch.nn.Module \(Linear\); .*import_network\(model, .*sl.tune_network\(net\)",
        torch.nn.Linear: r"the class Linear, .*sl.import_network\(Linear\(\.\.\.\), \(example,\)\)",
        torch.export.export(linear, example): r"ExportedProgram; .*import_network\(exported\)",
        traced: "ScriptModule .*; import the torch.nn.Module that it was made from",
        torch.relu: "the torch function relu; write .*te.compute, or put it into a torch.nn.Module",
        torch.nn.functional.gelu: "the torch function gelu; write",
        example[0]: "a torch tensor; describe what is computed",
        network: r"a Network; sl.tune_network\(network\).*network.tasks\[0\].workload",
    }
    for given, message in of_program.items():
        with pytest.raises(sl.WorkloadError, match=message):
            sl.tune(given)
    of_network = {
        torch.nn.Linear: "the class Linear, not an instance",
        traced: "ScriptModule .*; give the torch.nn.Module that it was made from",
        torch.relu: "the torch function relu; put it into a torch.nn.Module",
        example[0]: "a torch tensor; the model comes first",
        WORKLOAD: r"a Workload; it is one program, no model: sl.tune\(program\)",
        network: "a Network; it is imported already",
    }
    for given, message in of_network.items():
        with pytest.raises(sl.NetworkError, match=message):
            sl.import_network(given, example)


def test_names_of_our_own_classes_are_right() -> None:
    """A class that moves would lose its message."""
    for name in _KNOWN:
        if name.startswith("schedlang."):
            module, _, kind = name.rpartition(".")
            assert inspect.isclass(getattr(__import__(module, fromlist=[kind]), kind)), name


def test_a_scan_says_what_to_write_and_that_can_be_tuned() -> None:
    x, state = te.placeholder((8, 4), name="x"), te.placeholder((8, 4), name="state")
    first = te.compute((1, 4), lambda _, j: x[0, j])
    update = te.compute((8, 4), lambda i, j: state[i - 1, j] + x[i, j])
    sums = te.scan(first, update, state, inputs=[x], name="sums")
    with pytest.raises(
        sl.WorkloadError, match=r"sums is a te.scan, .*prim_func.*the steps is inside"
    ):
        sl.tune([x, sums])

    @T.prim_func(s_tir=True)
    def written(x: T.Buffer((8, 4), "float32"), y: T.Buffer((8, 4), "float32")) -> None:
        for column in range(4):
            with T.sblock("sums"):
                j = T.axis.spatial(4, column)
                T.reads(x[0:8, j])
                T.writes(y[0:8, j])
                y[0, j] = x[0, j]
                for i in range(7):
                    y[i + 1, j] = y[i, j] + x[i + 1, j]

    # The module parallelises the columns.
    result = sl.tune(
        from_prim_func(written),
        space=columns_in_parallel,
        trials=1,
        finals=0,
        reference=lambda x: np.cumsum(x, axis=0),
    )
    assert [record.status for record in result.records] == [sl.Status.OK]
    assert result.records[0].verified


def test_a_dynamic_tensor_expression_is_told_in_its_own_terms() -> None:
    n = te.var("n")
    a = te.placeholder((4, n), name="a")
    b = te.compute((4, n), lambda i, j: a[i, j] + 1, name="b")
    said = r"'a' has the symbolic extent n in dimension 1, .*; give te.placeholder a number"
    with pytest.raises(sl.WorkloadError, match=said) as caught:
        sl.tune([a, b])
    assert "specialize" not in str(caught.value)
    c = te.compute((n,), lambda i: A[i] + 1, name="c")
    with pytest.raises(sl.WorkloadError, match=r"'c' has .* dimension 0, .*; give te.compute a"):
        sl.Schedule([A, c])
