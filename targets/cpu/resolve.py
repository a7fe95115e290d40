"""Resolve the unspecified properties of a CPU target, with the source of each value.

``resolve`` takes what the user gave, then what this machine reports where the code is for it, then
what the named targets assume. The limits that shape programs (cores, caches, unrolling) have a part
of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from schedlang import host
from schedlang.errors import TargetError
from schedlang.printed import nearest
from schedlang.targets.cpu import features
from schedlang.targets.cpu.features import GENERIC, NAMED, NAMES, CacheSizes, NamedTarget
from schedlang.targets.kinds import check_count, check_rate, full_name
from schedlang.tvm import codegen

# -- The code, the vectors and the peak -----------------------------------------------------------

# For peak_flops. No CPU runs faster than this many cycles a second, or has more units for fused
# multiply-adds in a core: two where vectors are wide, four where they are of 128 bits.
_CYCLES = 6.5e9
_WIDE_UNITS, _NARROW_UNITS = 2, 4
_NARROW_BITS = 128


@dataclass(frozen=True, slots=True)
class Code:
    """The CPU that LLVM generates code for, and where it runs.

    Attributes
    ----------
    mcpu, triple, attributes: LLVM's options.
    machine: LLVM's name of the CPU that runs the code, ``"generic"`` if any may.
    here: whether that is this machine.
    origin: the source of ``mcpu``.
    """

    mcpu: str
    triple: str
    attributes: tuple[str, ...]
    machine: str
    here: bool
    origin: str


def resolve(
    name: str,
    mcpu: str | None,
    triple: str | None,
    attributes: tuple[str, ...] | None,
    machine: str | None,
    numbers: Mapping[str, float],
) -> dict[str, Any]:
    """Return the attributes of the target that a user means; TargetError if there is none.

    ``numbers`` holds the given limits.
    """
    name = full_name(name, NAMES)
    for key, number in numbers.items():
        _check_number(name, key, number)
    if attributes is not None and not isinstance(attributes, tuple):
        raise TargetError(
            f"target {name!r}: attributes={attributes!r}; give a tuple of features, such as "
            '("+avx512vnni", "-sve")'
        )
    for key, value in (("mcpu", mcpu), ("triple", triple), ("machine", machine)):
        if value is not None and not isinstance(value, str):
            raise TargetError(f"target {name!r}: {key}={value!r}; give LLVM's name of it as text")
    if name in NAMED:
        code = _named_code(NAMED[name], mcpu, triple, attributes, machine)
    else:
        code = _plain_code(name, mcpu, triple or "", attributes)
    if machine is not None and machine != code.machine:
        raise TargetError(
            f"target {name!r}: machine={machine!r}, and the code is for {code.machine}: leave one "
            "out"
        )
    architecture = code.triple.partition("-")[0] or host.architecture()
    available = features.features_of(code.mcpu, code.triple, code.attributes)
    cpus = cpus_to_use(host.usable_cpus())
    assumed = limits_elsewhere(architecture, available & features.KNOWN)
    facts = limits_here(cpus, assumed) if code.here else dict(assumed)
    facts |= _vector_facts(architecture, available, code)
    for key, number in numbers.items():
        if key != "peak_flops":
            facts[key] = Fact(int(number), "given")
    peak = numbers.get("peak_flops")
    sources = {key: fact.source for key, fact in facts.items()}
    sources["mcpu"] = code.origin
    sources["peak_flops"] = "an upper bound: no clock is above 6.5 GHz" if peak is None else "given"
    return {
        "name": name,
        "mcpu": code.mcpu,
        "triple": code.triple,
        "attributes": code.attributes,
        "machine": code.machine,
        "cpus": cpus[: facts["cores"].value],
        "peak_flops": _peak_flops(facts) if peak is None else peak,
        "sources": sources,
        **{key: fact.value for key, fact in facts.items()},
    }


def _plain_code(
    name: str, given: str | None, triple: str, attributes: tuple[str, ...] | None
) -> Code:
    """Resolve ``Target("cpu")``, or the machine whose CPU is given."""
    own = is_like_host(triple)
    triple = "" if own else triple
    mcpu = given or (codegen.host_cpu() if own else GENERIC)
    here = own and mcpu == codegen.host_cpu()
    if attributes is None:
        # A CPU that is named has all its features on every host, and the host's own what it has.
        attributes = features.host_attributes() if here and given is None else ()
    _check_cpu(name, mcpu, triple)
    _check_attributes(name, mcpu, triple, attributes)
    origin = "LLVM's name of the host CPU" if here else "given" if given else "default"
    return Code(mcpu, triple, attributes, mcpu, here, origin)


def is_like_host(triple: str) -> bool:
    """Tell whether a triple, empty for this machine's, is that of this machine.

    Only architecture and system count: vendors and libraries have many names.
    """
    if not triple:
        return True
    own = codegen.host_triple()
    same_system = ("linux" in triple) == ("linux" in own)
    return triple.partition("-")[0] == own.partition("-")[0] and same_system


def _named_code(
    entry: NamedTarget,
    mcpu: str | None,
    given_triple: str | None,
    given_attributes: tuple[str, ...] | None,
    machine: str | None,
) -> Code:
    own = entry.architecture == host.architecture()
    triple = "" if own else entry.triple
    one_cpu = mcpu is not None and mcpu != entry.mcpu
    attributes = () if one_cpu else entry.attributes
    for key, value, known in (
        ("triple", given_triple, (triple, entry.triple)),
        ("attributes", given_attributes, (attributes,)),
    ):
        if value is not None and value not in known:
            raise TargetError(
                f"target {entry.name!r} has {key} {known[0]!r} and not {value!r}; describe another "
                'machine with Target("cpu", mcpu=..., triple=..., attributes=...)'
            )
    if mcpu is not None and one_cpu:
        _check_has_all(entry, "mcpu", mcpu, triple)
        return Code(mcpu, triple, (), mcpu, own and mcpu == codegen.host_cpu(), "given")
    here = own and features.host_features().issuperset(entry.requires)
    if machine is None:
        machine = codegen.host_cpu() if here else GENERIC
    elif machine != GENERIC:
        _check_has_all(entry, "machine", machine, triple)
    here = here and machine == codegen.host_cpu()
    origin = f"the least CPU with what {entry.name} has"
    return Code(entry.mcpu, triple, attributes, machine, here, origin)


def _check_has_all(entry: NamedTarget, key: str, cpu: str, triple: str) -> None:
    """Reject a CPU that LLVM does not know, or that lacks what the name stands for."""
    _check_cpu(entry.name, cpu, triple or entry.triple)
    lacking = set(entry.requires) - features.features_of(cpu, triple)
    if lacking:
        raise TargetError(
            f"target {entry.name!r}: {key}={cpu!r} lacks {', '.join(sorted(lacking))}; "
            "choose another name, or another CPU"
        )


def _vector_facts(architecture: str, available: frozenset[str], code: Code) -> Facts:
    bits = features.vector_bits(architecture, available, here=code.here)
    if bits is None:
        bits = codegen.vector_bits(code.mcpu, code.triple), "TVM's default for the architecture"
    return {
        "vector_bits": Fact(*bits),
        "vector_registers": Fact(*features.vector_registers(architecture, available)),
    }


def _check_cpu(name: str, mcpu: str, triple: str) -> None:
    """Reject an unknown CPU. TVM only logs it, and continues without the CPU's features."""
    if codegen.is_cpu(mcpu, triple):
        return
    hint = nearest(mcpu, codegen.cpu_names(triple))
    remedy = hint or "; give triple=... for another architecture"
    where = triple.partition("-")[0] or host.architecture()
    raise TargetError(f"target {name!r}: LLVM knows no CPU {mcpu!r} of {where}{remedy}")


def _check_attributes(name: str, mcpu: str, triple: str, attributes: tuple[str, ...]) -> None:
    """Refuse features without a sign, and unknown ones, which LLVM itself ignores."""
    for text in attributes:
        if not isinstance(text, str) or text[:1] not in ("+", "-"):
            raise TargetError(
                f"target {name!r}: attributes={attributes!r}; give features with a sign, such as "
                '("+avx512vnni", "-sve")'
            )
    unknown = set(features.needed(attributes)) - features.features_of(mcpu, triple, attributes)
    if unknown:
        raise TargetError(
            f"target {name!r}: attributes={attributes!r}; {mcpu} does not get "
            f"{', '.join(sorted(unknown))} from LLVM: one takes it away, or it is misspelt"
        )


def _check_number(name: str, key: str, number: float) -> None:
    if key == "peak_flops":
        check_rate(name, key, number)
        return
    check_count(name, key, number)
    if key == "vector_bits" and (number < 8 or int(number).bit_count() > 1):
        raise TargetError(f"target {name!r}: vector_bits={number}; give a power of two from 8 on")


def _peak_flops(facts: Facts) -> float:
    bits = facts["vector_bits"].value
    units = _WIDE_UNITS if bits > _NARROW_BITS else _NARROW_UNITS
    return facts["cores"].value * (bits / 32) * 2 * units * _CYCLES


# -- Limits of a machine: cores, caches, unrolling ------------------------------------------------

_DEFAULT_CORES = 4
# Instructions with vector operands and an address take 6 to 9 bytes on x86, and 4 on aarch64.
_BYTES_OF_INSTRUCTION = 8
_CODE = "8 bytes an instruction"


class Fact(NamedTuple):
    """A number and its source."""

    value: int
    source: str


Facts = dict[str, Fact]


@cache
def cpus_to_use(usable: tuple[int, ...]) -> tuple[int, ...]:
    """Return one of the ``usable`` logical CPUs for each physical core."""
    return host.one_cpu_per_core(usable)


def limits_here(cpus: tuple[int, ...], assumed: Facts) -> Facts:
    """Return cores and caches of this machine; ``assumed`` gives unreported values."""
    listed = ", ".join(map(str, cpus)) if len(cpus) <= 8 else f"{cpus[0]} ... {cpus[-1]}"
    cores = Fact(len(cpus), f"affinity mask, one CPU a core ({listed})")
    return {**assumed, **_caches_of(cpus[0]), "cores": cores}


@cache
def limits_elsewhere(architecture: str, features: frozenset[str]) -> Facts:
    """Return cores and caches to assume for another machine.

    They come from the last named target whose features the machine has.
    """
    fitting = [
        entry
        for entry in NAMED.values()
        if entry.architecture == architecture and features.issuperset(entry.requires)
    ]
    caches, like = CacheSizes(), "of another machine"
    if fitting:
        caches, like = fitting[-1].caches, f"as for {fitting[-1].name}"
    facts = {
        f"l{level}_bytes": Fact(size, f"default, {like}")
        for level, size in enumerate((caches.l1, caches.l2, caches.l3), start=1)
    }
    unrolled = Fact(caches.instructions // _BYTES_OF_INSTRUCTION, f"default, {like}")
    cores = Fact(_DEFAULT_CORES, "default: the machine is another one")
    return {"cores": cores, **facts, "max_unrolled": unrolled}


@cache
def _caches_of(cpu: int) -> Facts:
    facts: Facts = {}
    below: Fact | None = None
    for level in (1, 2, 3):
        found = host.find_cache(cpu, level)
        if found is not None and found.bytes:
            below = Fact(found.bytes, str(found.place))
        elif below is not None:
            # The machine has no such level: what lies beyond the one before is memory.
            below = Fact(below.value, f"no cache of level {level}: as the one before")
        if below is not None:
            facts[f"l{level}_bytes"] = below
    code = host.find_cache(cpu, 1, instructions=True)
    if code is not None and code.bytes:
        most = code.bytes // _BYTES_OF_INSTRUCTION
        facts["max_unrolled"] = Fact(most, f"{code.place}, {_CODE}")
    return facts
