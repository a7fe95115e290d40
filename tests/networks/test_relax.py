"""Relax modules as networks, their tasks, and records applied to them."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

import schedlang as sl
from schedlang.database import Database

RNG = np.random.default_rng(0)


def tensor(*shape: int) -> relax.Expr:
    return relax.const(RNG.standard_normal(shape).astype(np.float32))


def dense(size: int = 8) -> tvm.IRModule:
    """Two layers of one shape, a third of another, and a transposition."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((size, size), "float32"))
    op = relax.op
    with builder.function("main", [x]):
        with builder.dataflow():
            value = builder.emit(op.nn.relu(op.matmul(x, tensor(size, size))))
            value = builder.emit(op.nn.relu(op.matmul(value, op.permute_dims(tensor(size, size)))))
            turned = builder.emit(op.permute_dims(value))
            last = builder.emit(op.add(op.matmul(turned, tensor(size, 3)), tensor(3)))
            returned = builder.emit_output(relax.Tuple([last, turned]))
        builder.emit_func_output(returned)
    return builder.get()


def test_tasks_and_weights() -> None:
    network = sl.import_network(dense(), name="three layers")
    assert [(task.name, task.weight) for task in network.tasks] == [
        ("fused_matmul_relu", 2),
        ("transpose", 1),
        ("fused_matmul1_add", 1),
    ]
    assert [task.moves_data for task in network.tasks] == [False, True, False]
    assert [task.constants for task in network.tasks] == [(1,), (), (1, 2)]
    assert [value.shape for value in network.parameters.values()] == [(8, 8), (8, 8), (8, 3), (3,)]
    assert network.flops == sum(task.weight * task.flops for task in network.tasks)
    assert network.verify().passed
    shown = str(network)
    assert "network three layers: 155 parameters" in shown
    assert "  in   x: float32 [8, 8]" in shown
    assert "4 calls of 3 tasks, 1 of them only move data" in shown
    assert "      2   " in shown and "moves data  transpose" in shown


def test_indices_are_those_of_workloads() -> None:
    """A product of a network has the keys of the same product made with ``workloads``.

    But for its weights: what is measured with weights packed ahead is another record.
    """
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 6), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            returned = builder.emit_output(relax.op.matmul(x, tensor(6, 8)))
        builder.emit_func_output(returned)
    (task,) = sl.import_network(builder.get()).tasks
    plain = sl.workloads.matmul(4, 8, 6)
    marked = plain.func.with_attr("layout_free_buffers", [1])
    assert task.workload.exact_key == sl.workloads.from_prim_func(marked, "marked").exact_key
    assert task.workload.exact_key != plain.exact_key
    assert task.workload.family_key == plain.family_key


def test_functions_with_one_exact_key_are_one_task() -> None:
    """``x - w`` with an axis of extent 1 more or less is the same function."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 6), "float32"))
    y = relax.Var("y", relax.TensorType((1, 4, 6), "float32"))
    with builder.function("main", [x, y]):
        with builder.dataflow():
            one = builder.emit(relax.op.subtract(x, tensor(4, 6)))
            two = builder.emit(relax.op.subtract(y, tensor(1, 4, 6)))
            returned = builder.emit_output(relax.Tuple([one, two]))
        builder.emit_func_output(returned)
    network = sl.import_network(builder.get())
    (merged,) = network.tasks
    assert merged.functions == ("subtract", "subtract1")
    assert merged.weight == 2
    assert merged.constants == (1,)
    assert network.verify().passed
    assert "= subtract1" in str(network)


def test_examples_by_name_or_position() -> None:
    example = np.ones((8, 8), np.float32)
    for given in ((example,), {"x": example}, example):
        network = sl.import_network(dense(), given)
        first, _ = network.run(example)
        np.testing.assert_array_equal(network.run(x=example)[0], first)
    with pytest.raises(sl.NetworkError, match="takes x; got 2 by position"):
        network.run(example, example)
    with pytest.raises(sl.NetworkError, match="input 'x': expected shape"):
        sl.import_network(dense(), (example[:4],))


def test_parameters_in_an_attribute() -> None:
    """As TVM's front ends keep them with ``keep_params_as_input``."""
    builder = relax.BlockBuilder()
    x, w = (relax.Var(name, relax.TensorType((3, 3), "float32")) for name in "xw")
    with builder.function("main", [x, w]):
        with builder.dataflow():
            returned = builder.emit_output(relax.op.matmul(x, relax.op.permute_dims(w)))
        builder.emit_func_output(returned)
    mod = builder.get()
    value = RNG.standard_normal((3, 3)).astype(np.float32)
    mod["main"] = mod["main"].with_attr("num_input", 1)
    with pytest.raises(sl.NetworkError, match="takes 1 parameters besides its 1 inputs"):
        sl.import_network(mod)
    mod["main"] = mod["main"].with_attr("params", [tvm.runtime.tensor(value)])
    network = sl.import_network(mod)
    assert list(network.parameters) == ["w (folded)"]
    np.testing.assert_array_equal(network.parameters["w (folded)"], value.T)
    np.testing.assert_allclose(network.run(value), value @ value.T, rtol=1e-5)


def test_modules_that_are_no_network() -> None:
    with pytest.raises(sl.NetworkError, match="no Relax function 'main'"):
        sl.import_network(sl.workloads.matmul(4, 4, 4).mod)
    builder = relax.BlockBuilder()
    batch = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((batch, 3), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            returned = builder.emit_output(relax.op.nn.relu(x))
        builder.emit_func_output(returned)
    with pytest.raises(sl.NetworkError, match="dynamic shape"):
        sl.import_network(builder.get())


def test_a_network_with_records_applied_builds() -> None:
    """Scheduled functions keep no global symbol: Relax would find two functions named main."""
    network = sl.import_network(dense(128))
    with Database() as database:
        task = network.tasks[0]
        sl.tune(task.workload, trials=3, database=database, progress=False)
        with pytest.warns(sl.UntunedWarning, match="has no record"):
            applied = sl.apply(network.mod, database)
    changed = applied[task.name].script() != network.mod[task.name].script()
    assert changed, "unrolled and vectorised, it is faster"
    assert network.verify(executable=network.compile(mod=applied)).passed
