"""Faults that are planted into generated code and into kernels are found, and named."""

from __future__ import annotations

import numpy as np
import pytest

from schedlang.lab import emulator_runs as run
from schedlang.lab.emulator import EmulationError, UnknownCodeError
from schedlang.targets.cuda import emulate
from tests.lab.emulator.programs import (
    needs_compiler,
    run_kernel,
    shared_product,
    softmax,
    warp_product,
)

pytestmark = needs_compiler
INTS = np.zeros(64, np.int32)


def test_a_removed_barrier_is_a_race() -> None:
    found = shared_product(16).emulate_edited("__syncthreads();", "", orders=1)
    assert found.verified is False
    assert {fault.kind for fault in found.faults} >= {"race", "wrong_result"}
    race = next(fault for fault in found.faults if fault.kind == "race")
    assert "shared" in race.message and "no barrier lies between" in race.message


def test_a_wrong_fragment_layout_gives_wrong_numbers() -> None:
    found = warp_product(k=32).emulate_edited("x4.trans.shared", "x4.shared", orders=1)
    assert [fault.kind for fault in found.faults] == ["wrong_result"]


def test_a_wrong_shuffle_gives_wrong_numbers() -> None:
    found = softmax().emulate_edited("red_buf0_ptr[0], 16, 32)", "red_buf0_ptr[0], 8, 32)")
    assert {fault.kind for fault in found.faults} == {"wrong_result"}


def test_a_wait_for_too_few_groups_is_a_race() -> None:
    program = shared_product(32, pipelined=True)
    assert "cp.async.ca" in program.source().text
    assert program.emulate_edited("cp.async.ca", "cp.async.ca", orders=3).verified
    found = program.emulate_edited("cp.async.wait_group 1;", "cp.async.wait_group 2;", orders=1)
    kinds = {fault.kind for fault in found.faults}
    assert "race" in kinds
    assert any("nobody has waited for" in fault.message for fault in found.faults)


def test_unknown_ptx_and_functions_are_named() -> None:
    with pytest.raises(UnknownCodeError, match="griddepcontrol.wait;") as caught:
        shared_product(16).emulate_edited(
            "__syncthreads();", 'asm volatile("griddepcontrol.wait;" ::: "memory");'
        )
    assert caught.value.code == "griddepcontrol.wait;"
    with pytest.raises(UnknownCodeError, match="'__nanosleep'") as caught:
        run_kernel("__nanosleep(10);", INTS)
    assert caught.value.code == "__nanosleep"
    with pytest.raises(UnknownCodeError, match="cuda_fp8.h"):
        shared_product(16).emulate_edited("#include <cuda.h>", "#include <cuda_fp8.h>")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        # Another write of the same value does no harm; a different one does.
        ("out[0] = 7;", []),
        ("out[0] = threadIdx.x;", ["race"]),
        # Threads of different blocks, too.
        ("if (threadIdx.x == 0) out[0] = blockIdx.x;", ["race"]),
        ("if (threadIdx.x == 0) atomicAdd(&out[0], int(blockIdx.x));", []),
        ("__shared__ int s[32]; s[threadIdx.x] = 1; out[threadIdx.x] = s[threadIdx.x ^ 1];",
         ["race"]),
        ("__shared__ int s[32]; s[threadIdx.x] = 1; __syncwarp(); "
         "if (blockIdx.x == 0) out[threadIdx.x] = s[threadIdx.x ^ 1];", []),
        ("__shared__ int s[32]; s[threadIdx.x + 1] = 1;", ["out_of_bounds"]),
        ("__shared__ int s[32]; int* p = s; p[threadIdx.x + 1] = 1;", ["out_of_bounds"]),
        ("extern __shared__ uchar d[]; ((int*)d)[threadIdx.x + 16] = 1;", ["out_of_bounds"]),
        ("out[threadIdx.x + 33] = 1;", ["out_of_bounds"]),
        ("if (threadIdx.x == 0) *(int4*)(out + 1) = make_int4(1, 2, 3, 4);", ["misaligned"]),
        ("if (threadIdx.x < 3) __syncthreads();", ["barrier"]),
        ("if (threadIdx.x < 3) __shfl_sync(7u, 1, 0); else __syncthreads();",
         ["barrier"]),
        ("if (threadIdx.x < 3) __shfl_sync(15u, 1, 0); else __syncthreads();",
         ["deadlock"]),
        ("int* nothing = (int*)8; *nothing = 1;", ["crash"]),
    ],
)  # fmt: skip
def test_faults_of_kernels(body: str, kinds: list[str]) -> None:
    _, found = run_kernel(body, INTS, blocks=2, dynamic=64, orders=1)
    assert sorted(set(found)) == kinds


def test_an_endless_kernel_is_ended() -> None:
    _, found = run_kernel("while (true) out[threadIdx.x] += 1;", INTS, orders=1, seconds=1)
    assert found == ["timeout"]


def test_a_changed_input_is_a_fault() -> None:
    found = shared_product(16).emulate_edited(
        "__syncthreads();", "__syncthreads(); v_a_ptr[0] = 5.0f;"
    )
    assert "changed_input" in {fault.kind for fault in found.faults}


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    run.find_compiler.cache_clear()
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(EmulationError, match="install one.*CXX"):
        run.find_compiler()
    monkeypatch.undo()
    assert run.find_compiler()


def test_wrong_arguments() -> None:
    program = shared_product(16)
    with pytest.raises(ValueError, match="orders=0"):
        emulate(program, orders=0)
    with pytest.raises(ValueError, match="is no GPU"):
        emulate(program, target="cpu")
    with pytest.raises(ValueError, match="2 arguments: A, B"):
        emulate(program, [np.zeros((16, 16), np.float32)])
