"""Generated CUDA C++ as C++ for the host: shared memory, inline PTX and the table of kernels."""

from __future__ import annotations

import re
from dataclasses import dataclass

from schedlang.targets.cuda.emulator.ptx import translate_assembly
from schedlang.targets.cuda.emulator.result import EmulationError

_KERNEL = re.compile(
    r'extern "C" __global__ void\s+(?:__launch_bounds__\([^)]*\)\s*)?'
    r"(?P<name>\w+)\((?P<parameters>[^)]*)\)(?P<body>\s*\{)?"
)
_DYNAMIC = re.compile(
    r"extern\s+__shared__\s+(?:__align__\(\d+\)\s*|alignas\(\d+\)\s*)?(\w+)\s+(\w+)\[\];"
)
_STATIC = re.compile(
    r"__shared__\s+(?:alignas\((?P<align>\d+)\)\s*)?"
    r"(?P<type>[\w ]+?)\s+(?P<name>\w+)\[(?P<count>\d+)\];"
)
_VECTOR_CAST = re.compile(
    r"\((half[24]|nv_bfloat16[24]|u?(?:char|short|int|longlong)[234]|(?:float|double)[234])\*\)\("
)
_SIZES = {
    "bool": 1, "signed char": 1, "unsigned char": 1, "char": 1, "uchar": 1,
    "int8_t": 1, "uint8_t": 1,
    "half": 2, "nv_bfloat16": 2, "short": 2, "ushort": 2, "int16_t": 2, "uint16_t": 2,
    "float": 4, "int": 4, "uint": 4, "unsigned": 4, "int32_t": 4, "uint32_t": 4, "half2": 4,
    "double": 8, "int64_t": 8, "uint64_t": 8, "float2": 8, "int2": 8, "uint2": 8, "half4": 8,
    "float4": 16, "int4": 16, "uint4": 16,
}  # fmt: skip
_ALIGNMENT = 64
_MOST_BYTES = 1 << 20
# Between two variables, so that an index just outside one is noticed.
_GAP = 256


@dataclass(frozen=True, slots=True)
class _Variable:
    kernel: str
    name: str
    offset: int
    bytes: int


def translate(source: str) -> str:
    """Return C++ for the host that ``include/emulator.h`` compiles.

    Raises ``UnknownCodeError`` for PTX that the emulator does not know, and ``EmulationError`` for
    a source without kernels.
    """
    kernels = {found["name"]: found["parameters"] for found in _KERNEL.finditer(source)}
    if not kernels:
        raise EmulationError('the source has no kernel: no function with extern "C" __global__')
    variables: list[_Variable] = []
    text = _DYNAMIC.sub(r"\1* \2 = (\1*)emu_dynamic_shared();", _place_variables(source, variables))
    text = _VECTOR_CAST.sub(r"emu_vector<\1>(", translate_assembly(text))
    calls = [_call(name, parameters) for name, parameters in kernels.items()]
    table = "".join(f'  {{"{name}", emu_call_{name}}},\n' for name in kernels)
    placed = "".join(
        f'  {{"{one.kernel}", "{one.name}", {one.offset}, {one.bytes}}},\n' for one in variables
    )
    return (
        f"{text}\n\n{''.join(calls)}\n"
        f"const emu_kernel emu_kernels[] = {{\n{table}  {{nullptr, nullptr}}}};\n"
        f"const emu_variable emu_variables[] = {{\n{placed}  {{nullptr, nullptr, 0, 0}}}};\n"
    )


def _place_variables(source: str, variables: list[_Variable]) -> str:
    """Give each variable in static shared memory an address; collect them in ``variables``."""
    bodies = [found for found in _KERNEL.finditer(source) if found["body"]]
    end = 0

    def place(found: re.Match[str]) -> str:
        nonlocal end
        owner = [body["name"] for body in bodies if body.start() < found.start()]
        if not owner:
            return found[0]
        kind, count = found["type"].strip(), int(found["count"])
        if kind not in _SIZES:
            raise EmulationError(f"shared memory {found['name']} has the unknown type {kind!r}")
        if not variables or variables[-1].kernel != owner[-1]:
            end = 0
        alignment = max(int(found["align"] or 1), _ALIGNMENT)
        offset = -(-end // alignment) * alignment
        end = offset + count * _SIZES[kind] + _GAP
        if end > _MOST_BYTES:
            raise EmulationError(
                f"kernel {owner[-1]} has more than {_MOST_BYTES} bytes of static shared memory, "
                "more than any GPU has"
            )
        variables.append(_Variable(owner[-1], found["name"], offset, count * _SIZES[kind]))
        return (
            f"{kind} (&{found['name']})[{count}] = "
            f"*({kind} (*)[{count}])emu_static_shared({offset});"
        )

    return _STATIC.sub(place, source)


def _call(name: str, parameters: str) -> str:
    """Write the function that calls a kernel with pointers to its arguments."""
    types = [
        one.replace("__restrict__", "").rsplit(maxsplit=1)[0]
        for one in parameters.split(",")
        if one.strip()
    ]
    arguments = [
        f"({kind})arguments[{place}]" if "*" in kind else f"*({kind}*)arguments[{place}]"
        for place, kind in enumerate(types)
    ]
    return f"static void emu_call_{name}(void** arguments) {{ {name}({', '.join(arguments)}); }}\n"
