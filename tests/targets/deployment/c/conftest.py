"""Libraries for C, exported once, and programs in C that use them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from schedlang.targets import export_c
from tests.targets.deployment import modules
from tests.targets.programs import matmul, scheduled_matmul

Run = Callable[..., str]


@pytest.fixture(scope="session")
def gemm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A product of matrices in all forms: ``gemm.so``, ``gemm.a``, ``gemm.o`` and ``gemm.h``."""
    folder = tmp_path_factory.mktemp("gemm")
    for suffix in (".a", ".o", ".so"):
        path = export_c(scheduled_matmul(matmul()), "cpu", folder / f"gemm{suffix}")
    return path


@pytest.fixture(scope="session")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``twice`` and ``add_to``, which has a parallel loop, in all forms."""
    folder = tmp_path_factory.mktemp("several")
    for suffix in (".a", ".o", ".so"):
        path = export_c(modules.several(), "cpu", folder / f"several{suffix}")
    return path


@pytest.fixture
def run_c(tmp_path: Path) -> Run:
    """Compile a program with what it is linked with, run it, and return what it printed."""

    def run(
        text: str, *linked: Path, compiler: Sequence[str] = ("cc", "-std=c11"), more: str = ""
    ) -> str:
        source = tmp_path / ("program.cc" if "++" in compiler[0] else "program.c")
        source.write_text(text)
        folders = {one.parent for one in linked}
        command = [*compiler, "-Wall", "-Wextra", "-Werror", "-pedantic", str(source)]
        command += [f"-I{folder}" for folder in folders]
        command += [*map(str, linked), *(f"-Wl,-rpath,{folder}" for folder in folders)]
        command += ["-pthread", "-lm", "-ldl", "-o", str(tmp_path / "program"), *more.split()]
        subprocess.run(command, check=True, capture_output=True, text=True)
        done = subprocess.run([tmp_path / "program"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    return run
