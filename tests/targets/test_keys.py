"""Targets from the keys that records are stored under, and who may ask for a kind."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

import schedlang as sl
from schedlang.errors import TargetError
from schedlang.targets import CPUTarget, CUDATarget
from schedlang.targets.cpu.features import NAMES as CPUS
from schedlang.targets.cuda.attributes import MODELS, NAMES
from schedlang.targets.kinds import KINDS, all_names

ROOT = Path(__file__).resolve().parents[2]
LINUX_X86 = "x86_64-unknown-linux-gnu"
ELSEWHERE = (
    sl.Target("cpu", 4, "skylake-avx512", 512, triple=LINUX_X86),
    sl.Target("cpu", 2, "znver3", triple=LINUX_X86, attributes=("+avx512f", "-sse4a")),
    sl.Target("cpu", 8, "cortex-a76", triple="aarch64-unknown-linux-gnu"),
    sl.Target("cpu", 8, triple="aarch64-unknown-linux-gnu", attributes=("+sve",)),
    sl.Target("x86/avx512", 4, "skylake-avx512"),
    sl.Target("aarch64/sve", 4, vector_bits=256),
    sl.Target("cuda", arch="sm_90", sms=100),
)


@pytest.mark.parametrize("name", [*CPUS, *NAMES])
def test_keys_lead_back(name: str) -> None:
    target = sl.Target(name)
    found = sl.Target.from_key(target.key)
    assert found.key == target.key and type(found) is type(target)
    if not isinstance(target, CUDATarget):
        assert found == target and found.peak_flops == target.peak_flops
    elif target.model:
        assert (found.sms, found.peak_flops) == (target.sms, target.peak_flops)


@pytest.mark.parametrize("target", ELSEWHERE, ids=lambda target: target.key)
def test_keys_of_machines_elsewhere_lead_back(target: sl.Target) -> None:
    found = sl.Target.from_key(target.key)
    assert found.key == target.key and found.tvm_target() is not None
    here = found.nearest_here()
    assert type(here) is type(found)
    if isinstance(here, CPUTarget):
        assert (here.cores, here.vector_bits) == (found.cores, found.vector_bits)


def test_what_a_key_does_not_tell_is_unknown() -> None:
    """A GPU without a data sheet: no latency of it is called impossible."""
    for key in ("cuda/sm_80", "cuda/sm_90/nvidia-h100-pcie/sms=114"):
        found = sl.Target.from_key(key)
        assert found.arch == key.split("/")[1]
        assert math.isinf(found.peak_flops_of(16)) and math.isinf(found.memory_bytes_per_second)
    assert sl.Target.from_key("cuda/sm_90/nvidia-h100-pcie/sms=114").sms == 114
    assert MODELS["h100"].sms == sl.Target.from_key("cuda/sm_90a/h100/sms=132").sms


def test_a_named_target_runs_on_the_cpu_of_its_key() -> None:
    found = sl.Target.from_key("x86/avx2@znver3/cores=2/vector=256")
    assert (found.name, found.machine, found.cores) == ("x86/avx2", "znver3", 2)
    anywhere = sl.Target.from_key("x86/avx2@generic/cores=2/vector=256")
    assert (anywhere.name, anywhere.cores) == ("x86/avx2", 2)


@pytest.mark.parametrize(
    "key", ["abacus", "cpu", "cpu/nonsense/cores=4/vector=256", "cpu/znver3/cores=4", "x86/avx9@a"]
)
def test_what_is_no_key_is_refused(key: str) -> None:
    with pytest.raises(TargetError):
        sl.Target.from_key(key)


def _kinds_compared(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that compare something called kind or target with the name of a kind."""
    named = {*KINDS, *all_names()}
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            words = {one.value for side in sides for one in ast.walk(side) if _is_text(one)}
            about = ast.unparse(node)
            if words & named and ("kind" in about or "target" in about):
                yield node.lineno
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            if any(
                f"{one.upper()}{end}" in ast.unparse(node.args[1])
                for one in KINDS
                for end in ("Target", "Machine")
            ):
                yield node.lineno


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def test_only_targets_ask_for_a_kind() -> None:
    """Elsewhere a target answers by a method.

    TVM's own kinds are for ``schedlang/tvm``, and the emulator plays one kind of machine.
    """
    found = []
    for top in ("schedlang", "modules", "search"):
        for path in (ROOT / top).rglob("*.py"):
            place = path.relative_to(ROOT)
            if place.parts[:2] == ("schedlang", "tvm") or place.name == "emulator.py":
                continue
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found += [f"{place}:{line}" for line in _kinds_compared(tree)]
    assert found == []
    assert list(_kinds_compared(ast.parse('if target.kind != "cpu": pass'))) == [1]
    assert list(_kinds_compared(ast.parse("isinstance(target, CPUTarget)"))) == [1]
