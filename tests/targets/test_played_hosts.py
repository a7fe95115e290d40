"""What is said of a named target is the same on every host that asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import schedlang as sl
from schedlang.errors import TargetError
from schedlang.targets import as_target
from schedlang.targets.cpu.features import NAMED
from tests.targets.played_hosts import HOSTS, playing

X86, ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
KEYS = (
    "cpu/znver4/cores=8/vector=512",
    "cpu/znver4/cores=64/vector=512",
    "cpu/znver5/cores=2/vector=512",
    "cpu/znver4-avx512vnni-avx512bf16/cores=8/vector=512",
    "cpu/sapphirerapids/cores=16/vector=512",
    "cpu/znver1/cores=2/vector=256",
    "cpu/nehalem/cores=4/vector=128",
    "cpu/generic@x86_64/cores=4/vector=128",
    "cpu/neoverse-n1/cores=4/vector=128",
    "cpu/neoverse-v1/cores=64/vector=256",
    "cpu/generic+sve@aarch64/cores=4/vector=128",
    "x86/avx2@generic/cores=4/vector=256",
    "x86/avx2@znver1/cores=2/vector=256",
    "x86/avx2@znver4/cores=8/vector=256",
    "x86/avx512@znver4/cores=8/vector=512",
    "x86/avx512@znver5/cores=2/vector=512",
    "x86/avx512_bf16@generic/cores=4/vector=512",
    "x86/avx512_vnni@sapphirerapids/cores=16/vector=512",
    "aarch64/dotprod@neoverse-n1/cores=4/vector=128",
    "aarch64/sve@neoverse-v1/cores=64/vector=256",
    "aarch64/sve@generic/cores=4/vector=128",
    "cuda/sm_80",
    "cuda/sm_90a/h100/sms=132",
    "cuda/sm_90/nvidia-h100-pcie/sms=114",
)
DESCRIBED: tuple[dict[str, Any], ...] = (
    {"name": "cpu", "cores": 8, "mcpu": "znver4", "triple": X86},
    {"name": "cpu", "cores": 16, "mcpu": "sapphirerapids", "triple": X86},
    {"name": "cpu", "cores": 2, "mcpu": "znver3", "triple": X86, "attributes": ("-sse4a",)},
    {"name": "cpu", "cores": 4, "mcpu": "neoverse-n1", "triple": ARM},
    {"name": "x86/avx512", "cores": 8, "mcpu": "znver4"},
    {"name": "x86/avx2", "cores": 2, "machine": "znver1"},
    {"name": "aarch64/sve", "cores": 64, "mcpu": "neoverse-v1", "vector_bits": 256},
    {"name": "aarch64/neon", "cores": 4, "machine": "generic"},
)


def statements(target: sl.Target) -> dict[str, Any]:
    """What a target says that its key, or its description, determines."""
    told: dict[str, Any] = {"key": target.key, "peaks": [*map(target.peak_flops_of, (8, 32, 64))]}
    if target.kind == "cpu":
        deployed = target.deployment()
        told |= {name: getattr(target, name) for name in ("name", "cores", "machine", "mcpu")}
        told |= {name: getattr(target, name) for name in ("vector_bits", "vector_registers")}
        told |= {"features": target.features, "architecture": target.architecture}
        told |= {"deployment": deployed, "attributes": target.attributes}
    return told


def all_said() -> dict[str, Any]:
    """The statements about all the keys and descriptions, and each one's relatives in order."""
    targets = {key: sl.Target.from_key(key) for key in KEYS}
    targets |= {str(one): sl.Target(**one) for one in DESCRIBED}
    return {
        text: {**statements(target), "relatives": target.relatives(KEYS)}
        for text, target in targets.items()
    }


@pytest.fixture(scope="module")
def elsewhere() -> dict[str, Any]:
    """What is said on a host that is none of the machines."""
    with playing(HOSTS["sse"]):
        return all_said()


@pytest.fixture(params=HOSTS)
def played(request: pytest.FixtureRequest) -> Iterator[str]:
    with playing(HOSTS[request.param]):
        yield request.param


def test_keys_say_the_same_on_every_host(played: str, elsewhere: dict[str, Any]) -> None:
    found = all_said()
    for text, said in elsewhere.items():
        assert found[text] == said, text


def test_keys_lead_back_on_every_host(played: str) -> None:
    targets = [sl.Target.from_key(key) for key in KEYS if not key.endswith("/sms=114")]
    assert [one.key for one in targets] == [one for one in KEYS if not one.endswith("/sms=114")]
    for one in (sl.Target(**given) for given in DESCRIBED):
        again = sl.Target.from_key(one.key)
        assert (again.key, again.features) == (one.key, one.features)


def test_this_machine_is_what_it_plays(played: str) -> None:
    host, target = HOSTS[played], sl.Target("cpu")
    assert (target.machine, target.cores, target.l2_bytes) == (
        host.mcpu,
        host.cores,
        host.l2_bytes,
    )
    assert target.architecture == host.architecture
    assert not target.features & {*host.denied}
    target.check_present()
    assert sl.Target.from_key(target.key) == target == as_target(target.tvm_target())
    for entry in NAMED.values():
        named = sl.Target(entry.name)
        assert sl.Target.from_key(named.key) == named
        able = entry.architecture == host.architecture and target.features >= {*entry.requires}
        assert named.machine == (host.mcpu if able else "generic")
        if able:
            named.check_present()
        else:
            with pytest.raises(TargetError, match="this machine"):
                named.check_present()


def test_only_the_machine_of_a_key_is_present(played: str) -> None:
    """Or any machine with the instructions, where the key names none."""
    able = sl.Target("cpu").features
    for key in KEYS:
        target = sl.Target.from_key(key)
        if target.kind != "cpu":
            continue
        try:
            target.check_present()
        except TargetError:
            here = target.nearest_here()
            assert here.name == "cpu" and here.machine == HOSTS[played].mcpu
        else:
            assert target.machine in (HOSTS[played].mcpu, "generic")
            assert target.features & _KNOWN <= able


_KNOWN = frozenset(feature for entry in NAMED.values() for feature in entry.requires)


@pytest.mark.parametrize("machine", ["znver3", "no-cpu"])
def test_a_machine_without_the_instructions_is_refused(machine: str) -> None:
    message = "lacks avx512bw" if machine == "znver3" else "LLVM knows no CPU 'no-cpu'"
    with pytest.raises(TargetError, match=message):
        sl.Target("x86/avx512", machine=machine)
    with pytest.raises(TargetError, match="machine='znver3', and the code is for znver4"):
        sl.Target("cpu", mcpu="znver4", triple=X86, machine="znver3")
