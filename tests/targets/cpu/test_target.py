from __future__ import annotations

import os
from dataclasses import replace

import pytest
from tvm.target import Target as TVMTarget

from schedlang.errors import TargetError
from schedlang.targets import Target, as_target, toolchain_key
from schedlang.tvm import codegen

LINUX_X86 = "x86_64-unknown-linux-gnu"


def test_this_machine() -> None:
    target = Target("cpu")
    assert target == Target.from_name("cpu")
    assert 1 <= target.cores <= len(os.sched_getaffinity(0))
    assert set(target.cpus) <= os.sched_getaffinity(0)
    assert len(target.cpus) == target.cores
    assert target.vector_bits in (128, 256, 512)
    tvm_target = target.tvm_target()
    assert int(tvm_target.attrs["num-cores"]) == target.cores
    assert str(tvm_target.attrs["mcpu"]) == target.mcpu
    target.check_present()


def test_the_key_is_stable_text() -> None:
    target = Target("cpu", cores=3, mcpu="znver4", vector_bits=512, triple=LINUX_X86)
    assert target.key == "cpu/znver4/cores=3/vector=512"
    assert target != replace(target, cores=2)
    assert "llvm" in toolchain_key() and "tvm" in toolchain_key()


def test_the_affinity_mask_limits_the_cores() -> None:
    mask = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(mask)})
    try:
        assert Target("cpu").cpus == (min(mask),)
    finally:
        os.sched_setaffinity(0, mask)


def test_what_can_be_a_target() -> None:
    target = Target("cpu")
    assert as_target(target) is target
    assert as_target("cpu") == target
    assert as_target(target.tvm_target()) == target
    named = as_target(
        TVMTarget({"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 7, "mtriple": LINUX_X86})
    )
    assert (named.mcpu, named.cores, named.vector_bits) == ("skylake-avx512", 7, 512)


@pytest.mark.parametrize("value", ["gpu", 3, TVMTarget({"kind": "c"})])
def test_an_unknown_target_lists_the_names(value: object) -> None:
    with pytest.raises(TargetError, match=r"\bcpu\b"):
        as_target(value)


def test_another_machine_cannot_be_measured_on() -> None:
    other = "skylake-avx512" if codegen.host_cpu() != "skylake-avx512" else "znver4"
    with pytest.raises(TargetError, match=r"measure on (that|such a) machine"):
        Target("cpu", mcpu=other, triple=LINUX_X86).check_present()
    with pytest.raises(TargetError, match="affinity mask"):
        Target("cpu", cores=4096).check_present()
    with pytest.raises(TargetError, match="cores=-1"):
        Target("cpu", cores=-1)


def test_the_peak_is_an_upper_bound_from_what_is_known() -> None:
    wide = Target("cpu", cores=2, mcpu="znver4", vector_bits=512, triple=LINUX_X86)
    assert wide.peak_flops == 2 * 16 * 2 * 2 * 6.5e9
    narrow = replace(wide, vector_bits=128, peak_flops=None)
    assert narrow.peak_flops == 2 * 4 * 2 * 4 * 6.5e9
    assert Target("cpu", peak_flops=1e9).peak_flops == 1e9
    assert Target("cpu", peak_flops=1e9) == Target("cpu")
    with pytest.raises(TargetError, match="peak_flops=-1"):
        Target("cpu", peak_flops=-1.0)
