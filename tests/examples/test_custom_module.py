"""The module of one's own: it is small, it tunes, and its traces run without schedlang."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import tvm
import tvm_ffi

import schedlang as sl

# Runs each file that it is given, and prints the programs that their `sch` hold.
RUN_WITHOUT_SCHEDLANG = """
import json, runpy, sys
import tvm, tvm_ffi
modules = [runpy.run_path(path)["sch"].mod for path in sys.argv[1:]]
ours = [name for name in sys.modules if name.split(".")[0] == "schedlang"]
hashes = [tvm_ffi.structural_hash(mod) for mod in modules]
print(json.dumps([ours, [tvm.ir.save_json(mod) for mod in modules], hashes]))
"""


@pytest.fixture(scope="module")
def example(load_example: Callable[[str], ModuleType]) -> ModuleType:
    return load_example("custom_module")


@pytest.fixture(scope="module")
def printed(run_example: Callable[..., str]) -> str:
    return run_example("custom_module")


def test_it_is_small_and_shows_every_kind_of_draw(example: ModuleType) -> None:
    lines = inspect.getsource(example.tile_matmul.function).splitlines()
    assert len(lines) <= 40
    text = "\n".join(lines)
    for method in ("perfect_tile", "categorical", "compute_location"):
        assert f"sch.sample_{method}(" in text
    assert "sch.choose(" in text


def test_it_tunes_and_prints_the_best_trace(printed: str) -> None:
    assert "32 measured" in printed and "verified" in printed
    assert "sl.Schedule(" in printed and "copy B" in printed


def test_what_it_prints_makes_one_program(printed: str, tmp_path: Path) -> None:
    """Printed as Python with schedlang, and as Python with only TVM."""
    _, _, both = printed.partition("# The best trace, as Python with schedlang\n")
    ours, _, theirs = both.partition("# The same with only TVM\n")
    made: dict[str, object] = {}
    exec(compile(ours, "ours", "exec"), made)
    [program] = programs_of([theirs], tmp_path)
    sch = made["sch"]
    assert isinstance(sch, sl.Schedule)
    assert tvm_ffi.structural_equal(program, sch.mod)


@pytest.mark.parametrize("copies", [True, False])
def test_its_traces_run_with_tvm_alone(example: ModuleType, copies: bool, tmp_path: Path) -> None:
    space = sl.Space([example.tile_matmul])
    workload = sl.workloads.matmul(64, 64, 64)
    schedules = []
    for seed in range(6):
        schedules.append(space.sample(workload, seed=seed, choices={"copy B": copies}))
    if copies:
        places = {sch.trace.decisions["where to copy B"] for sch in schedules}
        assert len(places) > 1
    programs = programs_of([sch.trace.as_tvm_python() for sch in schedules], tmp_path)
    assert len(programs) == len(schedules)
    for program, sch in zip(programs, schedules, strict=True):
        assert tvm_ffi.structural_equal(program, sch.mod)


def programs_of(scripts: list[str], folder: Path) -> list[tvm.ir.IRModule]:
    """The programs that scripts make in a process which never imports schedlang."""
    paths = [folder / f"{number}.py" for number in range(len(scripts))]
    for path, script in zip(paths, scripts, strict=True):
        path.write_text(script)
    done = subprocess.run(
        [sys.executable, "-c", RUN_WITHOUT_SCHEDLANG, *paths],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    ours, programs, hashes = json.loads(done.stdout)
    assert ours == []
    modules = [tvm.ir.load_json(program) for program in programs]
    assert [tvm_ffi.structural_hash(module) for module in modules] == hashes
    return modules
