"""Exported libraries in an environment with TileLang, and the command in an environment of pipx.

``make beside-tilelang`` makes both and gives them to these tests, which are skipped without: what
they need is several gigabytes.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import schedlang as sl
from schedlang.requirements import FFI, fits, requirements
from tests.networks.compiled.relax_networks import compiled_layers, tensor

HERE = Path(__file__).parent
OTHER = os.environ.get("SCHEDLANG_BESIDE_PYTHON", "")
COMMAND = os.environ.get("SCHEDLANG_BESIDE_COMMAND", "")
with_tilelang = pytest.mark.skipif(
    not OTHER, reason="needs an environment with TileLang: make beside-tilelang"
)
with_pipx = pytest.mark.skipif(
    not COMMAND, reason="needs an environment of pipx: make beside-tilelang"
)


def run(folder: Path, *words: str | Path) -> str:
    """Run a command that finds nothing of this repository; return what it prints."""
    clean = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    own = {"TILELANG_CACHE_DIR": str(folder / "tilelang"), "XDG_CACHE_HOME": str(folder / "cache")}
    done = subprocess.run(
        list(words), cwd=folder, env=clean | own, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout.strip())
    return done.stdout


def keep(path: Path, inputs: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """Write the tensors that a library takes and those that it should write."""
    np.savez(path, **inputs, **expected, inputs=list(inputs), expected=list(expected))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kernel and a network as libraries, and numpy's results."""
    made = tmp_path_factory.mktemp("beside")
    best = sl.tune(sl.workloads.matmul(64, 64, 64), "cpu", trials=4, progress=False).best
    best.export_c(made / "gemm.so")
    best.export_library(made / "gemm_of_tvm.so")
    a, b = tensor(64, 64, seed=1), tensor(64, 64, seed=2)
    keep(made / "gemm.npz", {"a": a, "b": b}, {"c": a @ b})
    network = compiled_layers()
    network.export_c(made / "network.so")
    network.export_library(made / "network_of_tvm.so")
    x = tensor(8, 16)
    hidden = x
    for seed in (1, 2):
        hidden = np.maximum(hidden @ tensor(16, 16, seed=seed), 0)
    y = np.ascontiguousarray((hidden @ tensor(16, 4, seed=3)).T)
    keep(made / "network.npz", {"x": x}, {"y": y})
    return made


@with_tilelang
def test_tilelang_needs_another_ffi(tmp_path: Path) -> None:
    code = "from importlib.metadata import version; print(version('apache-tvm-ffi'))"
    theirs = run(tmp_path, OTHER, "-I", "-c", code).strip()
    assert not fits(theirs, requirements()[FFI])


@with_tilelang
@pytest.mark.parametrize("first", ["libraries", "tilelang"])
def test_libraries_for_c_run_in_a_process_of_tilelang(folder: Path, first: str) -> None:
    said = run(folder, OTHER, "-I", HERE / "beside_tilelang.py", folder, first)
    assert said.splitlines()[-1].startswith("tilelang ")


@with_tilelang
def test_libraries_of_tvm_run_with_tilelangs_tvm(folder: Path) -> None:
    """Nobody promises it for other versions than these two."""
    assert "runs libraries" in run(folder, OTHER, "-I", HERE / "beside_tvm.py", folder)


@with_pipx
def test_the_command_of_pipx(tmp_path: Path) -> None:
    sizes = ("matmul", *(word for axis in "nmk" for word in (f"--{axis}", "64")))
    assert "measuring     a worker built, ran and verified a program" in run(
        tmp_path, COMMAND, "doctor"
    )
    assert "best" in run(tmp_path, COMMAND, "tune", *sizes, "--trials", "4", "--database", "t.db")
    run(tmp_path, COMMAND, "export", *sizes, "--database", "t.db", "--library", "gemm.so", "--c")
    assert (tmp_path / "gemm.so").is_file() and (tmp_path / "gemm.h").is_file()
