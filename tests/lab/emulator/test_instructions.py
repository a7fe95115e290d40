"""What the emulator plays, instruction by instruction, against numpy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.lab.emulator.programs import C_TYPES, needs_compiler, run_kernel

pytestmark = needs_compiler
RNG = np.random.default_rng(0)


def draw(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """Return small whole numbers, so that sums are exact in every type."""
    return RNG.integers(-3, 4, shape).astype(dtype)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(16, 16, 16), (32, 8, 16), (8, 32, 16)])
@pytest.mark.parametrize(
    ("read", "kept"),
    [("float16", "float32"), ("float16", "float16"), ("bfloat16", "float32"), ("int8", "int32")],
)
def test_wmma(shape: tuple[int, int, int], read: str, kept: str) -> None:
    m, n, k = shape
    a, b = draw((m, k), read), draw((k, n), read)
    numbers = f"{m}, {n}, {k}"
    body = f"""
    using namespace nvcuda::wmma;
    __shared__ {C_TYPES[kept]} s[{m * n}];
    fragment<matrix_a, {numbers}, {C_TYPES[read]}, row_major> a[1];
    fragment<matrix_b, {numbers}, {C_TYPES[read]}, col_major> b[1];
    fragment<accumulator, {numbers}, {C_TYPES[kept]}> c[1];
    fill_fragment(c[0], 0.0f);
    load_matrix_sync(a[0], in0, {k});
    load_matrix_sync(b[0], in1, {k});
    mma_sync(c[0], a[0], b[0], c[0]);
    store_matrix_sync(s, c[0], {m}, mem_col_major);
    __syncthreads();
    for (int e = threadIdx.x; e < {m * n}; e += 32) out[e] = s[e];
    """
    transposed = np.ascontiguousarray(b.T)
    found, faults = run_kernel(body, np.zeros((n, m), kept), a, transposed)
    assert faults == []
    np.testing.assert_array_equal(found.T, a.astype(kept) @ b.astype(kept))


@pytest.mark.parametrize(
    ("read", "kept", "k"),
    [("f16", "f32", 8), ("f16", "f16", 8), ("f16", "f16", 16), ("bf16", "f32", 16),
     ("s8", "s32", 16), ("s8", "s32", 32)],
)  # fmt: skip
def test_mma(read: str, kept: str, k: int) -> None:
    names = {"f16": "float16", "bf16": "bfloat16", "s8": "int8", "f32": "float32", "s32": "int32"}
    a, b, c = (draw(one, names[t]) for one, t in (((16, k), read), ((k, 8), read), ((16, 8), kept)))
    # Fragments as the PTX ISA draws them: a register of lane l holds elements of row l / 4 of A.
    p = 2 if read != "s8" else 4
    count = 2 * k // (4 * p)
    pc = 2 if kept == "f16" else 1

    def registers(lane: int) -> list[Any]:
        g, t = divmod(lane, 4)
        of_a = [a[g + 8 * (r % 2), t * p + 4 * p * (r // 2) :][:p] for r in range(count)]
        of_b = [b[t * p + 4 * p * r :, g][:p] for r in range(count // 2)]
        of_c = [c[g + 8 * (e // 2), t * 2 + e % 2] for e in range(4)]
        return [np.concatenate(of_a), np.concatenate(of_b), np.array(of_c)]

    packed = [
        np.ascontiguousarray(np.stack([registers(lane)[n] for lane in range(32)])).view(np.int32)
        for n in range(3)
    ]
    sizes = [count, count // 2, 4 // pc]
    letter = "f" if kept == "f32" else "r"
    place = 0
    groups = []
    for size in (sizes[2], *sizes):
        groups.append("{" + ", ".join(f"%{place + n}" for n in range(size)) + "}")
        place += size
    kind = {"f32": "float", "f16": "int", "s32": "int"}[kept]
    inputs = [f'"r"(in0[l * {sizes[0]} + {n}])' for n in range(sizes[0])]
    inputs += [f'"r"(in1[l * {sizes[1]} + {n}])' for n in range(sizes[1])]
    inputs += [f'"{letter}"((({kind}*)in2)[l * {sizes[2]} + {n}])' for n in range(sizes[2])]
    outputs = [f'"={letter}"((({kind}*)out)[l * {sizes[2]} + {n}])' for n in range(sizes[2])]
    body = f"""
    int l = threadIdx.x;
    __asm__ __volatile__(
      "mma.sync.aligned.m16n8k{k}.row.col.{kept}.{read}.{read}.{kept}"
      "{", ".join(groups)};\\n"
      : {", ".join(outputs)} : {", ".join(inputs)});
    """
    found, faults = run_kernel(body, np.zeros((32, sizes[2]), np.int32), *packed)
    assert faults == []
    d = found.view(names[kept])
    right = a.astype(np.float32) @ b.astype(np.float32) + c.astype(np.float32)
    for lane in range(32):
        g, t = divmod(lane, 4)
        for e in range(4):
            assert float(d[lane, e]) == right[g + 8 * (e // 2), t * 2 + e % 2]


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
def test_ldmatrix(count: int, transposed: bool) -> None:
    matrices = RNG.integers(0, 1000, (4, 8, 8)).astype(np.int16)
    outputs = ", ".join(f'"=r"(out[threadIdx.x * {count} + {n}])' for n in range(count))
    places = ", ".join(f"%{n}" for n in range(count))
    body = f"""
    __shared__ alignas(64) int s[128];
    for (int e = threadIdx.x; e < 128; e += 32) s[e] = in0[e];
    __syncthreads();
    unsigned int addr = __cvta_generic_to_shared(((half*)s) + threadIdx.x * 8);
    asm volatile("ldmatrix.sync.aligned.m8n8.x{count}{".trans" if transposed else ""}.shared.b16"
                 "{{{places}}}, [%{count}];\\n" : {outputs} : "r"(addr));
    """
    given = matrices.view(np.int32).reshape(-1)
    found, faults = run_kernel(body, np.zeros((32, count), np.int32), given)
    assert faults == []
    if transposed:
        matrices = matrices.transpose(0, 2, 1)
    for lane in range(32):
        pairs = matrices[:count, lane // 4, 2 * (lane % 4) : 2 * (lane % 4) + 2]
        np.testing.assert_array_equal(found[lane].view(np.int16), pairs.reshape(-1))


def test_warps_vote_and_shuffle() -> None:
    body = """
    int l = threadIdx.x;
    if (l >= 40) return;
    unsigned mask = __activemask();
    out[l] = __shfl_xor_sync(mask, l, 1, 32);
    out[64 + l] = __shfl_up_sync(mask, l, 2, 8);
    out[128 + l] = __ballot_sync(mask, l % 2);
    out[192 + l] = __any_sync(mask, l == 35) + 2 * __all_sync(mask, l > 30);
    out[256 + l] = __reduce_add_sync(mask, l);
    int x = 100;
    if (l < 4) x = __activemask();
    out[320 + l] = x;
    """
    found, faults = run_kernel(body, np.zeros((6, 64), np.int32), threads=48)
    assert faults == []
    lanes = np.arange(40)
    np.testing.assert_array_equal(found[0, :40], lanes ^ 1)
    np.testing.assert_array_equal(found[1, :40], np.where(lanes % 8 >= 2, lanes - 2, lanes))
    odd = int("10" * 16, 2)
    np.testing.assert_array_equal(found[2, :40].view(np.uint32), [odd] * 32 + [0xAA] * 8)
    np.testing.assert_array_equal(found[3, :40], [0] * 32 + [3] * 8)
    np.testing.assert_array_equal(found[4, :40], [496] * 32 + [284] * 8)
    np.testing.assert_array_equal(found[5, :40], [15] * 4 + [100] * 36)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_short_numbers_round_as_in_hardware(dtype: str) -> None:
    """All 65536 numbers, and float32 on both sides of the middle between neighbours."""
    numbers = np.arange(65536, dtype=np.uint16).view(dtype)
    body = "for (int e = threadIdx.x; e < 65536; e += 32) out[e] = float(in0[e]);"
    wide, faults = run_kernel(body, np.zeros(65536, np.float32), numbers, orders=1)
    assert faults == []
    np.testing.assert_array_equal(wide, numbers.astype(np.float32))
    kept = numbers[np.isfinite(numbers.astype(np.float32))].astype(np.float32)
    middle = (kept[:-1].astype(np.float64) + kept[1:]) / 2
    middle = middle.astype(np.float32)
    above = np.nextafter(middle, np.float32(np.inf))
    extremes = np.float32([1e30, -1e30, 1e-30])
    values = np.concatenate([middle, above, kept * np.float32(0.3), extremes])
    body = f"for (int e = threadIdx.x; e < {values.size}; e += 32) out[e] = in0[e];"
    found, _ = run_kernel(body, np.zeros(values.size, dtype), values, orders=1)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found, values.astype(dtype))
    assert ml_dtypes.bfloat16(1) == 1


def test_arithmetic_of_half() -> None:
    a, b = (RNG.uniform(0.1, 2.0, 64).astype(np.float16) for _ in range(2))
    body = """
    for (int e = threadIdx.x; e < 64; e += 32) {
      half x = in0[e], y = in1[e];
      half2 z = __hadd2(make_half2(x, y), make_half2(y, y));
      out[e] = z.x; out[64 + e] = x * y - x / y;
      out[128 + e] = hexp(x); out[192 + e] = __hmax(x, y);
    }
    """
    found, _ = run_kernel(body, np.zeros((4, 64), np.float16), a, b, orders=1)
    np.testing.assert_array_equal(found[0], a + b)
    np.testing.assert_array_equal(found[1], a * b - a / b)
    np.testing.assert_allclose(found[2], np.exp(a), rtol=1e-3)
    np.testing.assert_array_equal(found[3], np.maximum(a, b))
