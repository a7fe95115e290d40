"""The emulator's wgmma: each layout of operands, and faults that are planted are found."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.modules import UseWGMMA
from tests.lab.emulator.programs import Scheduled, needs_compiler, run_kernel

pytestmark = needs_compiler

RNG = np.random.default_rng(0)
ROWS, COLUMNS, TERMS = 64, 64, 16
WIDTHS = {0: 16, 3: 32, 2: 64, 1: 128}
"""Bytes of a row by the descriptor's layout type."""
BYTES = 8192


def packed(matrix: np.ndarray[Any, Any], layout: int, by_terms: bool) -> tuple[Any, int, int]:
    """Lay out ``matrix[line, term]`` as PTX draws it; bytes, leading and stride distance.

    K-major rows are lines, MN-major ones (``by_terms``) terms. Eight rows lie together; without a
    swizzle, groups of K-major rows are 128 bytes apart and columns of 16 bytes 1024 + 128.
    """
    stored = matrix.T if by_terms else matrix
    rows, columns = stored.shape
    width = WIDTHS[layout]
    group, beside = 8 * width, rows * width + (128 if layout == 0 else 0)
    found = np.zeros(BYTES, np.uint8)
    for row, column in product(range(rows), range(columns)):
        part, within = divmod(2 * column, width)
        place = part * beside + row // 8 * group + row % 8 * width + within
        place ^= (place >> 7) % (width // 16) << 4  # CUTLASS: Swizzle<B, 4, 3>
        found[place : place + 2] = stored[row : row + 1, column].view(np.uint8)
    exchanged = layout == 0 and by_terms
    return (found, group, beside) if exchanged else (found, beside, group)


def mma_text(left_by_terms: int, right_by_terms: int) -> str:
    registers = ", ".join(f"%{n}" for n in range(32))
    operands = ", ".join(f'"+f"(r[{n}])' for n in range(32))
    return f"""if (f[7] == {2 * left_by_terms + right_by_terms})
      asm volatile("{{ .reg .pred p; setp.ne.b32 p, %34, 0; "
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {{{registers}}}, %32, %33, p, 1, -1, "
        "{left_by_terms}, {right_by_terms}; }}" : {operands} : "l"(a), "l"(b), "r"(f[6]));"""


def test_layouts_of_operands() -> None:
    cases = list(product(WIDTHS, (False, True), (False, True)))
    fields, data, right = [], [], []
    for number, (layout, by_left, by_right) in enumerate(cases):
        a = RNG.integers(-4, 5, (ROWS, TERMS)).astype(np.float16)
        b = RNG.integers(-4, 5, (COLUMNS, TERMS)).astype(np.float16)
        left, other = packed(a, layout, by_left), packed(b, layout, by_right)
        added = number % 2
        kinds = [layout, added, 2 * by_left + by_right]
        fields.append([*(x // 16 for x in (*left[1:], *other[1:])), 0, *kinds])
        data.append(np.concatenate([left[0], other[0]]))
        right.append(added - a.astype(np.float32) @ b.T.astype(np.float32))
    calls = "\n".join(mma_text(*flags) for flags in product((0, 1), (0, 1)))
    body = f"""
    extern __shared__ uchar d[];
    unsigned int start = __cvta_generic_to_shared(d);
    for (int c = 0; c < {len(cases)}; ++c) {{
      for (int e = threadIdx.x; e < {2 * BYTES}; e += 128) d[e] = in0[c * {2 * BYTES} + e];
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      __syncthreads();
      const int* f = in1 + 8 * c;
      uint64_t base = (uint64_t)f[5] << 62;
      uint64_t a = base | start >> 4 | (uint64_t)f[0] << 16 | (uint64_t)f[1] << 32;
      uint64_t b = base | (start + {BYTES}) >> 4 | (uint64_t)f[2] << 16 | (uint64_t)f[3] << 32;
      a &= ~(15ull << 14); b &= ~(15ull << 14);
      float r[32];
      for (int n = 0; n < 32; ++n) r[n] = 1.0f;
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      {calls}
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      for (int n = 0; n < 32; ++n) {{
        int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + n / 2 % 2 * 8;
        out[(c * 64 + row) * 64 + n / 4 * 8 + threadIdx.x % 4 * 2 + n % 2] = r[n];
      }}
      __syncthreads();
    }}
    """
    found, faults = run_kernel(
        body,
        np.zeros((len(cases), ROWS, COLUMNS), np.float32),
        np.stack(data).view(np.int8),
        np.array(fields, np.int32),
        threads=128,
        dynamic=2 * BYTES,
        orders=1,
    )
    assert faults == []
    for case, one, expected in zip(cases, found, right, strict=True):
        np.testing.assert_array_equal(one, expected, err_msg=str(case))


@cache
def program() -> Scheduled:
    """A product of 64 x 64 x 192 in swizzled tiles, copied two rounds ahead."""
    workload = sl.workloads.matmul(64, 64, 192, dtype="float16", out_dtype="float32")
    space = sl.default_space("sm_90a") + UseWGMMA(layouts=["swizzled"], depths=[2])
    sch = space.sample(workload, seed=0)
    decisions = {"columns:C": 64, "terms:C": 64, "column_blocks:C": [1, 1]}
    return Scheduled(sch.trace.with_decisions(decisions).replay().mod, workload)


def volatile(instruction: str) -> str:
    return f'asm volatile("{instruction}" :  :  : "memory");'


@pytest.mark.parametrize(
    ("old", "new", "kind", "message"),
    [
        # What the tensor cores read was not made visible to them.
        (volatile("fence.proxy.async.shared::cta;"), "", "race", "no fence.proxy.async"),
        (volatile("wgmma.fence.sync.aligned;"), "", "wgmma", "no wgmma.fence lies between"),
        # The registers hold nothing yet.
        (volatile("wgmma.commit_group.sync.aligned;"), "", "wrong_result", "got nan"),
        ("wait_group.sync.aligned 0;", "wait_group.sync.aligned 1;", "wrong_result", "got nan"),
        # Another layout, another order, another place.
        (" 64, 3);", " 32, 3);", "wrong_result", "elements differ"),
        ("1, 1, 0, 1; }", "1, 1, 1, 1; }", "wrong_result", "elements differ"),
        ("(start_address >> 4)", "(start_address + threadIdx.x / 32 * 16 >> 4)", "wgmma",
         "other matrices than other threads"),
        ('asm volatile("{ .reg', 'if (threadIdx.x >= 32) asm volatile("{ .reg', "wgmma",
         "different numbers of wgmma"),
    ],
)  # fmt: skip
def test_planted_faults(old: str, new: str, kind: str, message: str) -> None:
    found = program().emulate_edited(old, new, orders=1)
    assert kind in {fault.kind for fault in found.faults}
    assert any(message in fault.message for fault in found.faults), found.faults


def test_a_barrier_left_out_is_a_race() -> None:
    """All barriers between copies and products; without one, the products read too early."""
    found = program().emulate_edited("__syncthreads();", "", orders=1)
    assert "race" in {fault.kind for fault in found.faults}


def test_a_block_has_whole_warpgroups() -> None:
    body = f"float r[32]; int f[8] = {{}}; uint64_t a = 0, b = 0; {mma_text(0, 0)}"
    _, faults = run_kernel(body, np.zeros(1, np.float32), threads=96, orders=1)
    assert faults == ["wgmma"]
