"""Fixtures for examples: the file as a module, and running it as a script."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tests.targets.conftest import environment

__all__ = ["environment"]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="session")
def load_example() -> Callable[[str], ModuleType]:
    """Imports a file of ``examples/`` without running its ``main``."""

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture(scope="session")
def run_example(
    environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., str]:
    """Run a file of ``examples/`` as a script in another folder; return its standard output."""

    def run(name: str, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, EXAMPLES / f"{name}.py", *arguments],
            cwd=tmp_path_factory.mktemp(name),
            env=environment,
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    return run
