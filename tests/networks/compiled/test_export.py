"""Exported networks: one file that TVM's run time runs without schedlang."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tvm import relax

import schedlang as sl
from schedlang.targets.errors import LibraryError
from schedlang.tvm import codegen
from tests.networks.compiled.relax_networks import (
    OP,
    compiled_layers,
    layers,
    module,
    tensor,
)

needs_compiler = pytest.mark.skipif(
    not codegen.has_linker(), reason="linking a library needs a C++ compiler"
)

LOADER = """
import sys
for name in ("schedlang", "torch"):
    sys.modules[name] = None  # importing it raises
import numpy as np
import tvm

assert tvm.base._RUNTIME_ONLY
network = tvm.runtime.load_module(sys.argv[1])["vm_load_executable"]()
network["vm_initialization"](1, 0, 2)
inputs = np.load(sys.argv[2])
arrays = [tvm.runtime.tensor(inputs[name]) for name in inputs.files]
for _ in range(2):
    outputs = network["main"](*arrays)
np.savez(sys.argv[3], *[output.numpy() for output in outputs])
"""


def run_alone(library: Path, *inputs: np.ndarray) -> list[np.ndarray]:
    """Run a library in a process that has TVM's run time only."""
    given, made = library.with_name("inputs.npz"), library.with_name("outputs.npz")
    np.savez(given, *inputs)
    done = subprocess.run(
        [sys.executable, "-c", LOADER, str(library), str(given), str(made)],
        env={**os.environ, "TVM_USE_RUNTIME_LIB": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    outputs = np.load(made)
    return [outputs[name] for name in outputs.files]


@needs_compiler
def test_a_library_runs_with_the_run_time_alone(tmp_path: Path) -> None:
    exe = compiled_layers()
    folder = tmp_path / 'a "folder" \\ of mine'
    folder.mkdir()
    path = exe.export_library(folder / "network.so")
    assert [file.name for file in folder.iterdir()] == ["network.so"], "the weights are inside"
    x = tensor(8, 16)
    [output] = run_alone(path, x)
    np.testing.assert_array_equal(output, exe(x))


@needs_compiler
def test_weights_of_all_types_and_shapes(tmp_path: Path) -> None:
    weights = [
        tensor(2, 3),
        tensor(2, 3, dtype="float16"),
        np.arange(5),
        np.array([True, False, True]),
        np.float64([0.1, 0.2]),
        np.arange(2, dtype=np.uint8),
    ]

    def compute(x: relax.Expr) -> Sequence[relax.Expr]:
        constants = [relax.const(weight, str(weight.dtype)) for weight in weights]
        return [OP.add(x, constants[0]), *constants]

    exe = sl.compile_network(sl.import_network(module([("x", (2, 3), "float32")], compute)))
    x = tensor(2, 3, seed=1)
    outputs = run_alone(exe.export_library(tmp_path / "weights.so"), x)
    for output, expected in zip(outputs, [x + weights[0], *weights], strict=True):
        np.testing.assert_array_equal(output, expected)
        assert output.dtype == expected.dtype


@needs_compiler
def test_a_network_without_weights(tmp_path: Path) -> None:
    exe = sl.compile_network(
        sl.import_network(module([("x", (3,), "float32")], lambda x: [OP.exp(x)]))
    )
    x = tensor(3)
    [output] = run_alone(exe.export_library(tmp_path / "plain.so"), x)
    np.testing.assert_array_equal(output, exe(x))


def test_where_none_can_be_written(tmp_path: Path) -> None:
    exe = sl.compile_network(sl.import_network(layers()))
    with pytest.raises(LibraryError, match=r"must end with one of \.so, \.dylib, \.dll"):
        exe.export_library(tmp_path / "network.tar")
    with pytest.raises(LibraryError, match="there is no folder"):
        exe.export_library(tmp_path / "absent" / "network.so")


@needs_compiler
def test_load_says_what_a_network_is(tmp_path: Path) -> None:
    exe = sl.compile_network(sl.import_network(layers()))
    with pytest.raises(LibraryError, match=r"A compiled network is loaded by .*vm_load_executable"):
        sl.load(exe.export_library(tmp_path / "network.so"))
