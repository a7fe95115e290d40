"""A kernel and its library, built once; and arrays at any address."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from schedlang.targets import CompiledProgram, build_callable, export_library
from tests.targets.programs import matmul, scheduled_matmul

RNG = np.random.default_rng(0)
A, B = (RNG.uniform(-1, 1, (64, 64)).astype(np.float32) for _ in "AB")


@pytest.fixture(scope="session")
def kernel() -> CompiledProgram:
    """The scheduled product of two matrices: parallel and vectorised."""
    return build_callable(scheduled_matmul(matmul()))


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of the same program."""
    return export_library(
        scheduled_matmul(matmul()), "cpu", tmp_path_factory.mktemp("library") / "matmul.so"
    )


@pytest.fixture(scope="session")
def run_script(environment: dict[str, str]) -> Callable[..., str]:
    """Run Python in a process of its own, which may crash; return what it printed."""

    def run(code: str, *arguments: object, **variables: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, arguments)],
            env={**environment, **variables},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    return run
