"""Compiled kernels on disk: found by other processes, and never trusted blindly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.just_in_time import kernel_cache as caches, kernel_choices as choices
from tests.just_in_time.templates import dense

A = np.random.default_rng(0).random((16, 16), np.float32)


def used() -> sl.JitFunction:
    """A function after one call, with a right result."""
    call = sl.jit(dense)
    np.testing.assert_allclose(call(A, A), A @ A, rtol=1e-5)
    return call


def files(cache: Path) -> list[str]:
    """The kinds of files in the folder of the only function."""
    [folder] = cache.iterdir()
    return sorted("".join(path.suffixes) for path in folder.iterdir())


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Call it, and from then on nothing can be compiled or chosen."""

    def begin() -> None:
        def refuse(*_: Any, **__: Any) -> None:
            raise AssertionError("it compiles, or chooses")

        monkeypatch.setattr(caches.KernelCache, "build", refuse)
        monkeypatch.setattr(choices, "default_schedule", refuse)

    return begin


def test_a_kernel_is_loaded_by_the_next_function(cache: Path, no_work: Callable[[], None]) -> None:
    used()
    assert files(cache) == [".default.json", ".json", ".so"]
    assert cache.stat().st_mode & 0o777 == 0o700
    no_work()
    assert used().explain(rows=16) == choices.DEFAULT


SCRIPT = """
import sys
import numpy as np
import schedlang as sl
from schedlang.just_in_time import kernel_cache, kernel_choices

@sl.jit
def dense(rows, width=16):
    return sl.workloads.matmul(rows, width, width)

if sys.argv[1] == "second":
    def refuse(*_, **__):
        raise AssertionError("it compiles, or chooses")
    kernel_cache.KernelCache.build = kernel_choices.default_schedule = refuse
a = np.eye(16, dtype="float32")
print(dense(a, a).trace(), dense.explain(rows=16))
"""


def test_processes_share_kernels() -> None:
    """Two that write the same files at the same time, and one that finds them."""
    for turns in (("first", "first"), ("second",)):
        started = [
            subprocess.Popen(
                [sys.executable, "-c", SCRIPT, turn],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for turn in turns
        ]
        for process in started:
            printed, errors = process.communicate(timeout=240)
            assert printed == "16.0 default schedule, not measured\n", errors


def test_a_record_is_loaded_too(tmp_path: Path, no_work: Callable[[], None], cache: Path) -> None:
    path = tmp_path / "tune.db"
    sl.tune(dense(16), trials=2, database=path, progress=False)
    sl.jit(dense, database=path)(A, A)
    assert files(cache) == [".json", ".so"]
    no_work()
    np.testing.assert_allclose(sl.jit(dense, database=path)(A, A), A @ A, rtol=1e-5)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def other(path: Path) -> None:
    path.write_text(json.dumps({"format": caches.FORMAT, "library": 3, "program_key": ["x"]}))


def future(path: Path) -> None:
    path.write_text(json.dumps({"format": caches.FORMAT + 1}))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["*.so", "*[0-9a-f].json", "*.default.json"])
@pytest.mark.parametrize("damage", [cut, flip, empty, other, future, Path.unlink])
def test_what_is_damaged_is_made_again(
    cache: Path,
    kind: str,
    damage: Callable[[Path], None],
    no_work: Callable[[], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    used()
    [path] = cache.glob(f"*/{kind}")
    damage(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        used()
    missing_index = damage is Path.unlink and kind != "*.so"
    assert ("again" in caplog.text) is not missing_index
    no_work()
    used()


def test_a_trace_that_does_not_apply_is_chosen_again(cache: Path) -> None:
    used()
    [path] = cache.glob("*/*.default.json")
    stored = json.loads(path.read_text())
    stored["trace"] = stored["trace"].replace('"C"', '"D"')
    path.write_text(json.dumps(stored))
    for library in cache.glob("*/*.so"):
        library.unlink()
    used()
    assert json.loads(path.read_text())["trace"] != stored["trace"]


def test_other_versions_and_targets_have_other_files(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used()
    monkeypatch.setattr(caches, "toolchain_key", lambda: "schedlang 99")
    used()
    sl.jit(dense, target=sl.Target("cpu", cores=1))(A, A)
    assert files(cache).count(".default.json") == 3


def test_clearing_removes_the_files_of_this_function_only(cache: Path) -> None:
    call = used()

    def other_dense(rows):  # type: ignore[no-untyped-def]
        return dense(rows, 16)

    sl.jit(other_dense)(A, A)
    assert call.clear_cache() == 3
    assert sorted(len(list(folder.iterdir())) for folder in cache.iterdir()) == [0, 3]
    np.testing.assert_allclose(call(A, A), A @ A, rtol=1e-5)
    assert sl.jit(dense, cache=False).clear_cache() == 0


@pytest.mark.parametrize("value", [None, False])
def test_without_a_cache_nothing_is_written(cache: Path, value: Any) -> None:
    np.testing.assert_allclose(sl.jit(dense, cache=value)(A, A), A @ A, rtol=1e-5)
    assert not cache.exists()


def test_nothing_is_written_before_the_first_call(cache: Path) -> None:
    sl.jit(dense)
    assert not cache.exists()


def test_a_folder_that_cannot_be_made_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    call = sl.jit(dense, cache=tmp_path / "file" / "kernels")
    with pytest.warns(sl.JitCacheWarning, match="it cannot be made: File exists"):
        np.testing.assert_allclose(call(A, A), A @ A, rtol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is said once
        np.testing.assert_allclose(call(A[:4], A), A[:4] @ A, rtol=1e-5)


@pytest.mark.parametrize("mode", [0o777, 0o720])
def test_a_folder_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.warns(sl.JitCacheWarning, match="other users may write .*: chmod 700 it"):
        np.testing.assert_allclose(sl.jit(dense, cache=folder)(A, A), A @ A, rtol=1e-5)
    assert list(folder.iterdir()) == []


def test_a_folder_below_one_that_others_may_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.warns(sl.JitCacheWarning, match="could put a folder of theirs below it"):
        sl.jit(dense, cache=tmp_path / "open" / "kernels")(A, A)
    (tmp_path / "open").chmod(0o1777)  # as /tmp: nobody can rename what is another's
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sl.jit(dense, cache=tmp_path / "open" / "kernels")(A, A)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give files away")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir(mode=0o700)
    os.chown(folder, 12345, -1)
    with pytest.warns(sl.JitCacheWarning, match="belongs to another user"):
        np.testing.assert_allclose(sl.jit(dense, cache=folder)(A, A), A @ A, rtol=1e-5)


def test_without_a_linker_kernels_stay_in_the_process(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise sl.targets.BuildError("there is no compiler")

    monkeypatch.setattr("schedlang.targets.cpu.target.CPUTarget.export_library", refuse)
    call = sl.jit(dense)
    with pytest.warns(sl.JitCacheWarning, match="no library can be written there: there is no"):
        np.testing.assert_allclose(call(A, A), A @ A, rtol=1e-5)
    np.testing.assert_allclose(call(A[:4], A), A[:4] @ A, rtol=1e-5)
    assert not list(cache.glob("*/*.so"))


def test_a_relative_variable_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/somewhere")
    from schedlang.just_in_time.kernel_cache import default_root

    assert default_root() == Path("/somewhere/.cache/schedlang/jit")
