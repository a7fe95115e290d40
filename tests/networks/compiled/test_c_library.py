"""Networks as libraries for C: the numbers of the compiled network, without TVM."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tvm import relax

import schedlang as sl
from schedlang.targets.errors import BuildError, LibraryError
from schedlang.tvm.relax.straight_line import TensorPlace, straight_line
from tests.networks.compiled.relax_networks import (
    OP,
    compiled_layers,
    layers,
    module,
    tensor,
)

ALONE = """
import ctypes, sys
import numpy as np
given = np.load(sys.argv[2])
arrays = [np.ascontiguousarray(given[name]) for name in given.files]
made = [np.zeros(shape, kind) for shape, kind in eval(sys.argv[4])]
pointers = [ctypes.c_void_p(one.ctypes.data) for one in arrays + made]
network = getattr(ctypes.CDLL(sys.argv[1]), sys.argv[5])
for _ in range(2):
    assert network(*pointers) == 0
assert "tvm" not in sys.modules
np.savez(sys.argv[3], *made)
"""


def run_alone(library: Path, exe: sl.networks.CompiledNetwork, *inputs: np.ndarray) -> list:
    """Run a library in a process without TVM."""
    given, made = library.with_name("inputs.npz"), library.with_name("outputs.npz")
    np.savez(given, *inputs)
    kinds = str([(one.shape, one.dtype) for one in exe.network.outputs])
    subprocess.run(
        [sys.executable, "-c", ALONE, library, given, made, kinds, library.stem], check=True
    )
    outputs = np.load(made)
    return [outputs[name] for name in outputs.files]


def test_a_network_runs_without_tvm(tmp_path: Path) -> None:
    exe = compiled_layers()
    folder = tmp_path / 'a "folder" of mine'
    folder.mkdir()
    path = exe.export_c(folder / "layers.so")
    assert sorted(one.name for one in folder.iterdir()) == ["layers.h", "layers.so"]
    x = tensor(8, 16)
    [output] = run_alone(path, exe, x)
    np.testing.assert_array_equal(output, exe(x))
    done = subprocess.run(["nm", "-D", path], check=True, capture_output=True, text=True)
    assert "TVM" not in done.stdout
    program = sl.load(path)
    made = np.zeros_like(output)
    program(x, made)
    np.testing.assert_array_equal(made, output)


def test_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exe = sl.compile_network(sl.import_network(layers()))
    exe.export_c("layers.so")
    x, made = tensor(8, 16), np.zeros((4, 8), np.float32)
    sl.load("layers.so")(x, made)
    np.testing.assert_array_equal(made, exe(x))


def test_outputs_are_the_callers_memory(tmp_path: Path) -> None:
    """Inputs, weights, views, and one tensor twice: each output is memory of its own."""
    weight = tensor(2, 6)

    def compute(x: relax.Expr) -> Sequence[relax.Expr]:
        summed = OP.add(x, relax.const(weight))
        halves = OP.split(summed, 2, axis=0)
        flat = OP.reshape(summed, (12,))
        return [x, relax.const(weight), summed, flat, halves[1], OP.exp(halves[0])]

    exe = sl.compile_network(sl.import_network(module([("x", (2, 6), "float32")], compute)))
    x = tensor(2, 6, seed=5)
    outputs = run_alone(exe.export_c(tmp_path / "several.so"), exe, x)
    for output, right in zip(outputs, exe(x), strict=True):
        np.testing.assert_array_equal(output, right)


def test_weights_of_all_types(tmp_path: Path) -> None:
    weights = [
        tensor(2, 3),
        tensor(2, 3, dtype="float16"),
        np.arange(5),
        np.array([True, False, True]),
        np.float64([0.1, 0.2]),
        np.array(7, np.int32),
    ]

    def compute(x: relax.Expr) -> Sequence[relax.Expr]:
        constants = [relax.const(weight, str(weight.dtype)) for weight in weights]
        return [OP.add(x, constants[0]), *constants]

    exe = sl.compile_network(sl.import_network(module([("x", (2, 3), "float32")], compute)))
    x = tensor(2, 3, seed=1)
    outputs = run_alone(exe.export_c(tmp_path / "weights.so"), exe, x)
    np.testing.assert_array_equal(outputs[0], x + weights[0])
    for output, weight in zip(outputs[1:], weights, strict=True):
        assert output.dtype == weight.dtype
        np.testing.assert_array_equal(output, weight)


def test_memory_in_use_at_the_same_time_does_not_overlap() -> None:
    """The largest tensors share memory where they can."""

    def compute(x: relax.Expr) -> Sequence[relax.Expr]:
        kept = OP.nn.softmax(x)
        for _ in range(6):
            x = OP.nn.softmax(OP.matmul(x, relax.const(tensor(32, 32))))
        return [OP.add(OP.nn.softmax(x), kept)]

    exe = sl.compile_network(sl.import_network(module([("x", (32, 32), "float32")], compute)))
    line = straight_line(exe._built.code.main)
    memories = {
        id(one.memory): one.memory
        for step in line.steps
        for one in step.operands
        if not isinstance(one, int) and one.memory.place is TensorPlace.SCRATCH
    }
    made = list(memories.values())
    assert len(made) > 6
    for one in made:
        assert one.at + one.bytes <= line.scratch
        for other in made:
            beside = one.first <= other.last and other.first <= one.last
            if one is not other and beside:
                assert one.at + one.bytes <= other.at or other.at + other.bytes <= one.at
    steps = range(len(line.steps))
    in_use = [sum(one.bytes for one in made if one.first <= k <= one.last) for k in steps]
    assert line.scratch == max(in_use) < sum(one.bytes for one in made) / 2


def test_what_c_cannot_run_is_named(tmp_path: Path) -> None:
    def compute(x: relax.Expr) -> Sequence[relax.Expr]:
        return [OP.sort(x)]

    exe = sl.compile_network(sl.import_network(module([("x", (2, 3), "float32")], compute)))
    with pytest.raises(BuildError, match="needs TVM's run time"):
        exe.export_c(tmp_path / "sorted.so")
    with pytest.raises(LibraryError, match="must end with one of .so, .a, .o"):
        exe.export_c(tmp_path / "sorted.dll")
    assert not list(tmp_path.iterdir())
