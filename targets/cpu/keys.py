"""Read the keys that records of CPUs are stored under; ``CPUMachine.key`` writes them."""

from __future__ import annotations

import re
from typing import Any

from schedlang.errors import TargetError
from schedlang.targets import host
from schedlang.targets.cpu.named import GENERIC, HOST, NAMED
from schedlang.tvm import codegen

_KEY = re.compile(
    r"(?P<name>[^/@]+/[^/@]+)(@(?P<machine>[^/]+))?/cores=(?P<cores>\d+)/vector=(?P<bits>\d+)"
)
_TRIPLES = {entry.architecture: entry.triple for entry in NAMED.values()}


def parse_key(key: str) -> dict[str, Any]:
    """Read ``"cpu/skylake-avx512+avx512vnni/cores=4/vector=512"``, ``"x86/avx2@znver3/..."``.

    Returns arguments of ``CPUTarget``: those for LLVM only where the name does not say them.

    Raises TargetError unless ``key`` is that of a CPU, and for a CPU that LLVM does not know.
    """
    found = _KEY.fullmatch(key)
    if found is None:
        raise TargetError(f"{key!r} is not the key of a CPU, as in cpu/znver3/cores=8/vector=256")
    name, machine = found["name"], found["machine"]
    numbers = {"cores": int(found["cores"]), "vector_bits": int(found["bits"])}
    if name in NAMED:
        return {"name": name, **numbers, "machine": machine or GENERIC}
    mcpu, triple, attributes = _code_of(key, name.partition("/")[2], machine)
    code = {"mcpu": mcpu, "triple": triple, "attributes": attributes}
    return {"name": HOST, **numbers, **code}


def _code_of(
    key: str, text: str, architecture: str | None
) -> tuple[str, str | None, tuple[str, ...]]:
    """Split ``"skylake-avx512+avx512vnni"``: CPU, triple and attributes.

    Names of CPUs have dashes too: the longest one that LLVM knows is the CPU. This machine's
    architecture comes last: the key means the same on every host.
    """
    here = host.architecture()
    architectures = [architecture] if architecture else [*_TRIPLES, here]
    ends = [len(text), *(one.start() for one in reversed(list(re.finditer("[+-]", text))))]
    for place in architectures:
        triple = None if place == here else _TRIPLES.get(place)
        for end in ends if triple or place == here else ():
            if codegen.is_cpu(text[:end], triple or ""):
                return text[:end], triple, tuple(re.findall("[+-][^+-]+", text[end:]))
    raise TargetError(f"the key {key!r}: LLVM knows no CPU {text!r}")
