"""What ``.ci/next-tvm`` tells of failed tests, of files that cannot be imported, and of crashes."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]

CRASHES = """
import os, sys

def test_well(): pass

def test_wrong(): assert 1 + 1 == 3, "arithmetic has moved"

def test_crash():
    print("!!!!!!! Segfault encountered !!!!!!!", file=sys.stderr)
    print('  File "libc.c", line 0, in 0x00007f212480704f', file=sys.stderr)
    print('  File "libc.c", line 0, in __pthread_kill_implementation', file=sys.stderr)
    print('  File "<unknown>", line 0, in tvm::ffi::Gone(tvm::ffi::Any)', file=sys.stderr)
    os.abort()

def test_never_reached(): pass
"""
IMPORTS = "from tvm.no_such_part import Name\n\ndef test_well(): pass\n"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, with a folder of tests of its own."""
    spec = importlib.util.spec_from_file_location("next_tvm", ROOT / ".ci" / "next_tvm.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "next_tvm", module)
    spec.loader.exec_module(module)
    (tmp_path / ".ci").symlink_to(ROOT / ".ci")
    (tmp_path / "tests" / "tvm").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\nmarkers = ["slow: slow"]\n'
    )
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    return module


def put(script: ModuleType, **files: str) -> None:
    for name, text in files.items():
        (script.ROOT / "tests" / "tvm" / f"{name}.py").write_text(text)


def test_a_crash_ends_its_file_only(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    put(script, test_a=CRASHES, test_b=IMPORTS, test_c="def test_well(): pass")
    assert script.main(["tvm"]) == 1
    said = capsys.readouterr().out
    assert " names that schedlang/tvm/ uses have moved\n" in said
    assert "tests/tvm: 2 passed, 2 failed, 0 skipped, 1 files crashed" in said
    assert "1 x AssertionError: arithmetic has moved" in said
    assert "1 x ModuleNotFoundError: No module named 'tvm.no_such_part'" in said
    assert "1 x tvm::ffi::Gone(tvm::ffi::Any)\n" in said
    assert "what ran as they crashed:\n  tests/tvm/test_a.py::test_crash\n" in said


def test_all_is_well(
    script: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "names", lambda: True)
    put(script, test_c="def test_well(): pass")
    assert script.main(["tvm"]) == 0
    assert "all: 1 passed, 0 failed, 0 skipped, 0 files crashed" in capsys.readouterr().out


def test_a_file_has_its_time(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    put(script, test_c="import time\ndef test_endless(): time.sleep(100)")
    script.LOGS.mkdir()
    file = script.ROOT / "tests" / "tvm" / "test_c.py"
    found = script.run(file, time.monotonic() + 4)
    # How far it came in that time is chance.
    [(_, place)] = found.crashes
    assert place == "exit code -9, without a stack of TVM"
    assert script.run(file, time.monotonic()) is None


def test_versions_stand_beside_ours(
    script: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from schedlang import requirements

    versions = {"apache-tvm": "99.0", "apache-tvm-ffi": requirements.version_of("apache-tvm-ffi")}
    monkeypatch.setattr(requirements, "version_of", versions.get)
    script.versions()
    tvm, ffi = capsys.readouterr().out.splitlines()
    assert tvm.startswith("apache-tvm 99.0; ==") and ffi.endswith("which is ours")
