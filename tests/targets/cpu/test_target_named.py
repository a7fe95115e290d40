from __future__ import annotations

import copy
import json
import pickle
from dataclasses import replace

import pytest
from tvm.target import Target as TVMTarget

import schedlang as sl
from schedlang import host
from schedlang.errors import TargetError
from schedlang.targets import Target, as_target
from schedlang.targets.cpu import features
from schedlang.targets.cpu.features import NAMED, NAMES
from schedlang.targets.kinds import code_generator
from schedlang.tvm import codegen

LINUX_X86 = "x86_64-unknown-linux-gnu"
on_x86 = pytest.mark.skipif(host.architecture() != "x86_64", reason="this machine is no x86_64")


@pytest.fixture
def lacking(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Features put in here are taken from this machine."""
    without: list[str] = []
    everything = features.host_features() | set(NAMED["x86/avx512_bf16"].requires)
    monkeypatch.setattr(features, "host_features", lambda: everything - set(without))
    return without


@pytest.mark.parametrize("name", NAMES)
def test_a_named_target_has_what_its_name_says(name: str) -> None:
    target = Target(name)
    assert target.name == name and target.kind == "cpu"
    if name in NAMED:
        assert target.features.issuperset(NAMED[name].requires)
        assert target.architecture == NAMED[name].architecture
        assert target == Target(name.partition("/")[2])
    assert target.lanes(32) * 32 == target.vector_bits
    assert min(target.l1_bytes, target.l2_bytes, target.l3_bytes, target.cores) > 0
    assert sl.default_space(name).name == "cpu"


@pytest.mark.parametrize(
    ("name", "bits", "registers", "has", "lacks"),
    [
        ("x86/avx2", 256, 16, "avx2", "avx512f"),
        ("x86/avx512", 512, 32, "avx512bw", "avx512vnni"),
        ("x86/avx512_vnni", 512, 32, "avx512vnni", "avx512bf16"),
        ("x86/avx512_bf16", 512, 32, "avx512bf16", "amx-int8"),
        ("aarch64/neon", 128, 32, "neon", "dotprod"),
        ("aarch64/dotprod", 128, 32, "dotprod", "sve"),
        ("aarch64/sve", 128, 32, "sve", "sve2"),
    ],
)
def test_the_limits_of_the_named_targets(
    name: str, bits: int, registers: int, has: str, lacks: str
) -> None:
    target = Target(name, machine="generic")
    assert (target.vector_bits, target.vector_registers) == (bits, registers)
    assert has in target.features and lacks not in target.features


def test_lanes_by_element() -> None:
    target = Target("avx2")
    assert [target.lanes(bits) for bits in (8, 16, 32, 64, 512)] == [32, 16, 8, 4, 1]
    assert target.max_lanes(32) == 32
    with pytest.raises(TargetError, match="dtype_bits=0"):
        target.lanes(0)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("AVX512-VNNI", "x86/avx512_vnni"),
        ("avx512bf16", "x86/avx512_bf16"),
        ("arm/sve", "aarch64/sve"),
        ("x86/avx", "x86/avx2"),
    ],
)
def test_a_bad_name_says_what_may_be_meant(name: str, meant: str) -> None:
    with pytest.raises(TargetError, match=f"unknown target '{name}'; did you mean '{meant}'") as e:
        Target(name)
    assert all(known in str(e.value) for known in NAMES)


def test_a_name_like_no_other_lists_them_all() -> None:
    with pytest.raises(TargetError, match="'tpu-v5'; known: cpu, x86/avx2, ") as error:
        as_target("tpu-v5")
    assert "mean" not in str(error.value)


@pytest.mark.parametrize("value", [0, -1, 2.5, True])
@pytest.mark.parametrize(
    "limit",
    [
        "cores",
        "vector_bits",
        "vector_registers",
        "l1_bytes",
        "l2_bytes",
        "l3_bytes",
        "max_unrolled",
    ],
)
def test_a_limit_is_a_positive_whole_number(limit: str, value: float) -> None:
    with pytest.raises(TargetError, match=f"'x86/avx2': {limit}={value}; give a whole number"):
        Target("x86/avx2", **{limit: value})


def test_other_bad_arguments() -> None:
    with pytest.raises(TargetError, match="peak_flops=0; give more than 0"):
        Target("cpu", peak_flops=0)
    with pytest.raises(TargetError, match="vector_bits=100; give a power of two"):
        Target("cpu", vector_bits=100)
    with pytest.raises(TargetError, match=r"no CPU 'neoverse-v9' of aarch64; did you mean 'neover"):
        Target("sve", mcpu="neoverse-v9")
    with pytest.raises(TargetError, match="'x86/avx512': mcpu='haswell' lacks avx512bw, .*avx512f"):
        Target("avx512", mcpu="haswell")
    with pytest.raises(TargetError, match=r"has attributes .* and not \('\+sme',\)"):
        Target("sve", attributes=("+sme",))
    with pytest.raises(TargetError, match="give features with a sign"):
        Target("cpu", attributes=("avx2",))
    with pytest.raises(TargetError, match="does not get avx512vni from LLVM"):
        Target("cpu", 1, "skylake-avx512", triple=LINUX_X86, attributes=("+avx512vni",))


def test_what_is_given_holds_and_says_so() -> None:
    target = Target("neon", cores=6, l2_bytes=3 << 20, vector_registers=30, machine="generic")
    assert (target.cores, target.l2_bytes, target.vector_registers) == (6, 3 << 20, 30)
    assert target.sources["l2_bytes"] == target.sources["cores"] == "given"
    assert target.sources["l1_bytes"] == "default, as for aarch64/neon"
    assert target == Target("neon", cores=6, machine="generic") != replace(target, cores=5)


@on_x86
def test_a_named_target_that_this_machine_has_is_this_machine(lacking: list[str]) -> None:
    here, target = Target("cpu"), Target("x86/avx2")
    target.check_present()
    assert target.machine == here.mcpu
    assert (target.cores, target.l1_bytes, target.l3_bytes) == (
        here.cores,
        here.l1_bytes,
        here.l3_bytes,
    )
    assert target.key == f"x86/avx2@{here.mcpu}/cores={here.cores}/vector=256"


@on_x86
def test_one_that_it_has_not_names_what_is_missing(lacking: list[str]) -> None:
    lacking += ["avx512bf16", "avx512vnni"]
    target = Target("x86/avx512_bf16")
    assert target.missing_features() == ("avx512vnni", "avx512bf16")
    with pytest.raises(TargetError, match="needs avx512vnni, avx512bf16, and this machine"):
        target.check_present()
    assert (target.machine, target.cores) == ("generic", 4)
    assert target.sources["l2_bytes"] == "default, as for x86/avx512_bf16"
    Target("x86/avx512").check_present()


@on_x86
def test_another_architecture_is_not_present() -> None:
    with pytest.raises(TargetError, match="is for aarch64, and this machine is x86_64"):
        Target("dotprod").check_present()


@on_x86
def test_attributes_are_needed_and_part_of_the_key(lacking: list[str]) -> None:
    lacking.append("amx-int8")
    target = Target("cpu", attributes=("+amx-int8",))
    assert "amx-int8" in target.features and "+amx-int8" in target.key
    with pytest.raises(TargetError, match="needs amx-int8"):
        target.check_present()


@on_x86
def test_a_cpu_that_lacks_more_is_another_one(lacking: list[str]) -> None:
    lacking.append("amx-int8")
    other = "sapphirerapids" if codegen.host_cpu() != "sapphirerapids" else "graniterapids"
    assert "amx-int8" in Target("cpu", mcpu=other).features
    with pytest.raises(TargetError, match=f"is a {other}, .*, which lacks .*amx-int8"):
        Target("cpu", mcpu=other).check_present()


@pytest.mark.parametrize("name", NAMES)
def test_tvms_target_leads_back(name: str) -> None:
    target = Target(name, cores=3)
    assert as_target(target.tvm_target()) == target
    assert codegen.llvm_target(**target.llvm_options()).attrs == target.tvm_target().attrs
    generator = code_generator(json.loads(json.dumps(target.spec())))
    assert generator.target.attrs == target.tvm_target().attrs
    assert str(generator.device) == "cpu:0"
    assert replace(target, cores=3) == target == pickle.loads(pickle.dumps(target))
    assert copy.deepcopy(target).features == target.features


def test_the_length_of_sve_leads_back() -> None:
    wide = Target("sve", vector_bits=512)
    assert as_target(wide.tvm_target()) == wide != Target("sve")
    assert "cl-opt" not in Target("sve", machine="generic").tvm_target().attrs
    cpu = {"kind": "llvm", "mcpu": "neoverse-v1", "mtriple": "aarch64-unknown-linux-gnu"}
    found = as_target(TVMTarget({**cpu, "num-cores": 8}))
    assert (found.name, found.architecture, found.cores) == ("cpu", "aarch64", 8)
    assert found.key == "cpu/neoverse-v1/cores=8/vector=128"


@on_x86
def test_a_triple_alone_is_any_machine_of_its_architecture() -> None:
    anything = Target("cpu", triple="aarch64-unknown-linux-gnu")
    assert anything.key == "cpu/generic@aarch64/cores=4/vector=128"


@on_x86
def test_a_triple_of_this_machine_is_left_out() -> None:
    own = {"kind": "llvm", "mcpu": codegen.host_cpu(), "mtriple": LINUX_X86}
    assert as_target(TVMTarget(own)) == Target("cpu")
