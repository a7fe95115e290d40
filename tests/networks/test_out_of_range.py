"""Indices out of range and divisors of zero: torch's answer or a typed error, in every route."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import tirx as T

import schedlang as sl
from schedlang.errors import NetworkError, ValueOutOfRangeError
from schedlang.tvm import codegen
from schedlang.tvm.relax.integer_checks import bounded, is_check
from tests.networks.compiled.relax_networks import OP

needs_compiler = pytest.mark.skipif(
    not codegen.has_linker(), reason="linking a library needs a C++ compiler"
)
ERROR = ValueOutOfRangeError.__name__


def outcomes(kind: str) -> Any:
    """Return what networks and models of a kind do, from a process that may end."""
    command = [sys.executable, "-m", "tests.networks.out_of_range", kind]
    # Other processes of tests find no torch.
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_networks_of_torch() -> None:
    pytest.importorskip("torch", reason="needs torch: pip install 'schedlang[torch]'")
    found, refused = outcomes("torch"), 0
    for name, pairs in found.items():
        ours, theirs = pairs[0]
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, err_msg=name)
        for ours, theirs in pairs[1:]:
            if isinstance(theirs, str):
                refused += 1
                assert ours == ERROR, name
            else:
                np.testing.assert_allclose(ours, theirs, rtol=1e-5, err_msg=name)
    assert refused >= 35


@pytest.mark.slow
def test_networks_of_onnx() -> None:
    """Negative indices count from the end; ``Div`` rounds to zero."""
    pytest.importorskip("onnx", reason="needs onnx: pip install 'schedlang[onnx]'")
    found = outcomes("onnx")
    assert len(found) == 8
    for name, pairs in found.items():
        assert not isinstance(pairs[0][0], str), (name, pairs[0])
        assert [ours for ours, _ in pairs[1:]] == [ERROR] * (len(pairs) - 1), name
    assert found["Gather"][0][0] == [[4.0, 5.0, 6.0, 7.0], [1196.0, 1197.0, 1198.0, 1199.0]]
    assert found["GatherND pairs"][0][0] == [6.0, 15.0]
    assert found["Div"][0][0] == [3, -2]


def module(inputs: Sequence[Any], compute: Callable[[Any], Any]) -> Any:
    """A module of operators: ``compute`` gets what emits one, and returns the output."""
    builder = relax.BlockBuilder()
    with builder.function("main", list(inputs)):
        with builder.dataflow():
            output = builder.emit_output(compute(builder.emit))
        builder.emit_func_output(output)
    return builder.get()


def table(rows: int = 300) -> Any:
    """A network of Relax that takes rows of a table."""
    x = relax.Var("x", relax.TensorType((rows, 4), "float32"))
    i = relax.Var("i", relax.TensorType((2,), "int64"))
    return module((x, i), lambda emit: OP.take(x, i, axis=0))


def checks_of(mod: Any) -> int:
    """Number of checks in an imported network."""
    network = sl.import_network(mod)
    return sum(map(is_check, network.mod.functions.values()))


def test_a_call_with_a_wrong_index_names_it_and_the_next_call_is_right() -> None:
    exe = sl.compile_network(sl.import_network(table()), progress=False)
    x = np.arange(1200, dtype="float32").reshape(300, 4)
    with pytest.raises(ValueOutOfRangeError, match="an index of take is out of range.* 0 to 299"):
        exe(x, np.array([1, 300]))
    np.testing.assert_array_equal(exe(x, np.array([1, 299])), x[[1, 299]])


@needs_compiler
def test_libraries(tmp_path: Path) -> None:
    exe = sl.compile_network(sl.import_network(table()), progress=False)
    x = np.arange(1200, dtype="float32").reshape(300, 4)
    loaded = tvm.runtime.load_module(str(exe.export_library(tmp_path / "one.so")))
    machine = relax.VirtualMachine(loaded, tvm.cpu())

    def main(*arrays: np.ndarray) -> Any:
        return machine["main"](*map(tvm.runtime.tensor, arrays))

    with pytest.raises(Exception, match="an index of take is out of range"):
        main(x, np.array([1, 10**11]))
    [found] = main(x, np.array([1, 299]))
    np.testing.assert_array_equal(found.numpy(), x[[1, 299]])


@needs_compiler
def test_libraries_for_c(tmp_path: Path) -> None:
    exe = sl.compile_network(sl.import_network(table()), progress=False)
    path = exe.export_c(tmp_path / "one.so")
    x = np.arange(1200, dtype="float32").reshape(300, 4)
    made = np.zeros((2, 4), "float32")
    library = ctypes.CDLL(str(path))

    def call(*indices: int) -> int:
        arrays = (x, np.array(indices), made)
        return int(library.one(*[ctypes.c_void_p(one.ctypes.data) for one in arrays]))

    library.schedlang_error.restype = ctypes.c_char_p
    assert call(1, 10**11) != 0
    assert b"an index of take is out of range" in library.schedlang_error()
    assert call(1, 299) == 0
    np.testing.assert_array_equal(made, x[[1, 299]])


def test_what_is_proven_is_not_checked() -> None:
    x = relax.Var("x", relax.TensorType((8, 4), "float32"))
    i = relax.Var("i", relax.TensorType((2,), "int64"))
    eight, two = relax.const(8, "int64"), relax.const(2, "int64")
    for indices in (
        lambda emit: emit(OP.argmax(x, axis=0)),
        lambda emit: emit(OP.clip(i, 0, 7)),
        lambda emit: emit(OP.floor_mod(i, eight)),
        lambda emit: relax.const(np.array([0, 7])),
        lambda emit: emit(OP.floor_divide(emit(OP.floor_mod(i, eight)), two)),
        lambda emit: emit(OP.where(emit(OP.less(i, two)), emit(OP.clip(i, 0, 3)), two)),
    ):
        taken = module((x, i), lambda emit, of=indices: OP.take(x, of(emit), axis=0))
        assert checks_of(taken) == 0
    for indices in (
        lambda emit: i,
        lambda emit: emit(OP.clip(i, 0, 8)),
        lambda emit: emit(OP.add(emit(OP.clip(i, 0, 7)), relax.const(1, "int64"))),
        lambda emit: emit(OP.multiply(emit(OP.floor_mod(i, eight)), i)),
    ):
        taken = module((x, i), lambda emit, of=indices: OP.take(x, of(emit), axis=0))
        assert checks_of(taken) == 1


def test_what_is_wrong_in_every_call_is_refused_at_import() -> None:
    x = relax.Var("x", relax.TensorType((8, 4), "float32"))
    wrong = relax.const(np.array([8]))
    with pytest.raises(NetworkError, match="in every call of the model, an index of take is out"):
        sl.import_network(module((x,), lambda emit: OP.take(x, wrong, axis=0)))


def test_loops_whose_ends_are_read_stay_inside_tensors() -> None:
    """No operator of TVM's has such loops; functions of a Relax module may."""

    @T.prim_func(s_tir=True)
    def sums(values: T.Buffer((8,), "float32"), ends: T.Buffer((3,), "int32"),
             found: T.Buffer((2,), "float32")) -> None:  # fmt: skip
        for i in range(2):
            found[i] = T.float32(0)
            for k in range(ends[i + 1] - ends[i]):
                found[i] = found[i] + values[ends[i] + k]

    mod = bounded()(tvm.IRModule({"main": sums}))
    run = tvm.compile(mod, target="llvm")["main"]
    values, found = np.arange(8, dtype="float32"), tvm.runtime.tensor(np.zeros(2, "float32"))
    run(*map(tvm.runtime.tensor, (values, np.array([0, 3, 5], "int32"))), found)
    np.testing.assert_array_equal(found.numpy(), [3, 7])
    run(*map(tvm.runtime.tensor, (values, np.array([-90000, -89999, -89998], "int32"))), found)
    np.testing.assert_array_equal(found.numpy(), [0, 0])
