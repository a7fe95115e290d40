"""What memory holds that nobody has written: no type and no comparison hides all of it."""

from __future__ import annotations

import numpy as np
import pytest

from schedlang.measurement.problem import NAN, content, fills_for
from schedlang.targets.measure.verification import FINAL_REPEATS, REPEATS
from schedlang.tvm.codegen import device
from schedlang.workloads import from_prim_func
from tests.targets.measure.test_runner import QUICK, bench_of
from tests.targets.programs import from_body

FLOATS = ("float16", "bfloat16", "float32", "float64")
# What plain draws reach, by type; the ends of integers are drawn as well.
DRAWN = {"int8": (-128, 127), "int16": (-32000, 32000), "int32": (-(10**9), 10**9)}
DRAWN |= {"uint8": (0, 255), "uint16": (0, 65535), "uint32": (0, 2**32 - 1)}
DRAWN |= dict.fromkeys(FLOATS, (-60000.0, 60000.0))
SUM = """
for i, k in T.grid(8, 8):
    with T.sblock("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            C[vi] = T.float32(0)
        C[vi] = C[vi] + A[vi, vk]
"""
SHOWN_LATER = """
for i, j in T.grid(2, 2048):
    with T.sblock("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = T.uint8(0)
"""
SIGNATURE = 'A: T.Buffer((8, 8), "float32"), C: T.Buffer((2, 2048), "uint8")'
# The first element keeps the memory in front of all loops: else each iteration has a byte of it.
SHOWN = """
W = T.sblock_alloc_buffer((2, 2049), "uint8")
for i in T.{loop}(2):
    W[i, 0] = T.uint8(1)
    for j in range(2048):
        C[i, j] = W[i, j + 1] * W[i, 0]
"""


@pytest.mark.parametrize("dtype", DRAWN)
def test_each_comparison_shows_one_of_the_first_four(dtype: str) -> None:
    low, high = DRAWN[dtype]
    held = [content(fill, (3,), dtype).astype(np.float64)[0] for fill in fills_for([dtype])[:4]]
    assert any(value >= high for value in held)
    assert any(value <= low for value in held)
    assert dtype not in FLOATS or any(np.isnan(value) for value in held)


@pytest.mark.parametrize("dtypes", [["float32"], ["int8"], ["uint8"], ["int8", "float16"]])
def test_all_of_them_come_in_turn(dtypes: list[str]) -> None:
    fills = fills_for(dtypes)
    assert fills[0] == NAN and len(set(fills)) == len(fills) == 7
    assert set(fills) == set(fills_for([]))


@pytest.mark.parametrize("shape", [(), (0,), (3, 5), (70, 70)])
@pytest.mark.parametrize("dtype", [*DRAWN, "bool", "float8_e4m3fn"])
def test_a_tensor_holds_a_fill(shape: tuple[int, ...], dtype: str) -> None:
    for fill in fills_for([dtype]):
        value = content(fill, shape, dtype)
        assert value.shape == shape and value.dtype == np.dtype(dtype)
        size = value.size * value.dtype.itemsize
        assert value.tobytes() == (fill * (size // len(fill) + 1))[:size]


def test_random_numbers_differ_from_each_other() -> None:
    [fill] = [one for one in fills_for([]) if len(one) > 1]
    value = content(fill, (64, 1024), "float32").view(np.uint32)
    assert len(np.unique(value[:, 0])) == 64


@pytest.mark.parametrize("loop", ["serial", "parallel"])
@pytest.mark.parametrize("fill", fills_for(["float32"]), ids=lambda fill: fill[:1].hex())
def test_workspaces_of_all_threads_are_filled(fill: bytes, loop: str) -> None:
    """A program that only gives out what it finds, finds the fill."""
    text = SHOWN.format(loop=loop)
    shown = from_body(text, SIGNATURE)
    bench = bench_of(from_prim_func(from_body(SHOWN_LATER, SIGNATURE)["main"]))
    tensors = bench._runner._data.tensors
    program = bench._backend.compile(shown)
    for _ in range(3):
        device.poison_workspaces(fill, 2)
        program.entry(*tensors)
        for row in tensors[1].numpy():
            assert row.tobytes() in fill * 2049


def test_a_candidate_finds_one_in_each_call_and_all_by_the_end_of_the_finals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mod = from_body(SUM, 'A: T.Buffer((8, 8), "float32"), C: T.Buffer((8,), "float32")')
    bench = bench_of(from_prim_func(mod["main"]))
    bench._binding.__dict__["draws"] = 4
    bench._runner.learn(bench._unscheduled_program())
    program, data, runner = bench._backend.compile(mod), bench._runner._data, bench._runner
    draws, met, outputs = len(runner._verifier.draws), list[bytes](), set[bytes]()

    def note(fill: bytes) -> None:
        met.append(fill)
        outputs.add(data.first_written()[0].tobytes())

    monkeypatch.setattr(bench._backend, "poison_workspaces", note)
    assert runner.run(program, QUICK, None, 1.0, REPEATS).verified
    assert met == list(fills_for(["float32"])[:draws]) and len(outputs) == draws
    assert runner.run(program, QUICK, None, 1.0, FINAL_REPEATS).verified
    assert met == [fills_for(["float32"])[n % 7] for n in range(2 * draws)]
    assert len(outputs) == min(2 * draws, 7)
