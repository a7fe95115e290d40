"""NVIDIA's compiler: registers, spills and shared memory of generated code, without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

import schedlang as sl
from schedlang.once import LastUsed
from schedlang.targets.cuda import nvcc
from schedlang.targets.cuda.nvcc import CompileError, Resources
from schedlang.targets.kinds import code_generator
from tests.targets.cuda.compiled_together import resources_of
from tests.targets.cuda.programs import tiled

needs_nvcc = pytest.mark.skipif(nvcc.find() is None, reason="there is no nvcc")

_SAID = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'main_kernel_1' for 'sm_80'
ptxas info    : Function properties for main_kernel_1
    136 bytes stack frame, 128 bytes spill stores, 256 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 8192 bytes smem
ptxas info    : Compiling entry function 'main_kernel' for 'sm_80'
ptxas info    : Function properties for main_kernel
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 28 registers, used 0 barriers, 376 bytes cmem[0]
"""


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvcc, "_kept", LastUsed(2))


def source_of(schedule: sl.Schedule, arch: str = "sm_80") -> str:
    return code_generator(sl.Target(arch).spec()).lower(schedule.mod).source()


def test_what_the_assembler_says_is_read() -> None:
    assert nvcc.read_resources(_SAID) == {
        "main_kernel_1": Resources(255, 136, 128, 256, 8192),
        "main_kernel": Resources(28, 0, 0, 0, 0),
    }


def test_without_a_compiler_the_error_has_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvcc, "find", lambda: None)
    with pytest.raises(CompileError, match="install NVIDIA's CUDA toolkit"):
        nvcc.compile_cubin("", "sm_80")


def test_it_is_found_by_its_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    compiler = tmp_path / "bin" / "nvcc"
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CUDACXX", raising=False)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert nvcc.find.__wrapped__() == compiler


@needs_nvcc
def test_registers_and_shared_memory() -> None:
    source = source_of(tiled())
    compiled = nvcc.compile_cubin(source, "sm_80")
    used = compiled.resources["main_kernel"]
    assert compiled.code.startswith(b"\x7fELF")
    assert 8 < used.registers <= 255 and used.static_shared_bytes == 2048
    assert nvcc.compile_cubin(source, "sm_80") is compiled


@needs_nvcc
def test_several_programs_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    compile_one = nvcc._compile

    def counted(source: str, arch: str) -> nvcc.Cubin:
        calls.append(source)
        return compile_one(source, arch)

    monkeypatch.setattr(nvcc, "_compile", counted)
    sources = [source_of(tiled(tile=tile)) for tile in (1, 2, 4)]
    found = resources_of(sources, "sm_80")
    assert len(calls) == 1
    assert [one["main_kernel"].static_shared_bytes for one in found] == [1024, 2048, 4096]
    broken = sources[0].replace("__syncthreads()", "no_such_function()")
    first, second = resources_of([broken, sources[1]], "sm_80")
    assert isinstance(first, CompileError) and "no_such_function" in str(first)
    assert second == found[1]
    assert "/" not in str(first)


@needs_nvcc
def test_a_report_has_registers_and_occupancy() -> None:
    report = sl.targets.cuda.check(tiled(), "sm_80")
    [kernel] = report.kernels
    assert report.ok and kernel.resources is not None
    assert kernel.shared_bytes == kernel.resources.static_shared_bytes == 2048
    assert kernel.occupancy.blocks >= 8
    assert f"{kernel.resources.registers} registers, no spills" in str(report)


@needs_nvcc
def test_asynchronous_copies_need_sm_80() -> None:
    program = tiled(scope="shared.dyn", vector=4, asynchronous=True)
    modern = sl.targets.cuda.check(program, "sm_80")
    assert modern.ok and "cp.async" in modern.source
    old = sl.targets.cuda.check(program, "sm_75")
    assert "requires .target sm_80 or higher" in old.problems[0]


@needs_nvcc
def test_what_the_assembler_refuses_was_rejected_before() -> None:
    program = tiled(side=256, tile=8, depth=128)
    report = sl.targets.cuda.check(program, "sm_80")
    assert [one.reason for one in report.violations] == ["shared memory"]
    assert len(report.problems) == 1
    with pytest.raises(CompileError, match="too much shared data"):
        nvcc.compile_cubin(report.source, "sm_80")
