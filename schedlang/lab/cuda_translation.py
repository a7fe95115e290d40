"""Generated CUDA C++ as C++ for the host: shared memory, inline PTX and the table of kernels.

Inline PTX, as TVM's code generator writes it, becomes calls of functions in ``include``: those of
warpgroups are in ``wgmma.h``, all others in ``ptx.h``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from schedlang.errors import SchedlangError


class EmulationError(SchedlangError):
    """A program that cannot be emulated, or a machine that cannot emulate; the message says why."""


class UnknownCodeError(EmulationError):
    """Generated code that the emulator does not know.

    Attributes
    ----------
    code: the PTX instruction, or the name that the compiler does not know.
    """

    def __init__(self, message: str, code: str) -> None:
        self.code = code
        super().__init__(message)


_START = re.compile(r"\b(?:asm|__asm__)\s*(?:volatile|__volatile__)?\s*\(")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_MMA_TYPES = ("f16", "bf16", "f32", "s8", "u8", "s32")
_MMA_SHAPES = {
    "f16": ("m16n8k8", "m16n8k16"),
    "bf16": ("m16n8k8", "m16n8k16"),
    "s8": ("m8n8k16", "m16n8k16", "m16n8k32"),
    "u8": ("m8n8k16", "m16n8k16", "m16n8k32"),
}


@dataclass(frozen=True, slots=True)
class Assembly:
    """One inline assembly statement.

    Attributes
    ----------
    text: the instructions, with single spaces.
    operands: the C++ expressions of the operands, the outputs first.
    """

    text: str
    operands: tuple[str, ...]


def translate_assembly(source: str) -> str:
    """Replace each inline assembly statement of CUDA C++ by a call.

    Raises ``UnknownCodeError`` with the instruction for one that the emulator does not know.
    """
    pieces: list[str] = []
    end = 0
    while (start := _START.search(source, end)) is not None:
        close = _closing(source, start.end() - 1)
        pieces += [source[end : start.start()], _call(_read(source[start.end() : close]))]
        end = close + 1
    return "".join([*pieces, source[end:]])


def _call(assembly: Assembly) -> str:
    for pattern, write in _INSTRUCTIONS:
        if (found := re.fullmatch(pattern, assembly.text)) is not None:
            call = write(found, assembly.operands)
            if call is not None:
                return call
    raise UnknownCodeError(
        f"the generated code has PTX that the emulator does not know: {assembly.text!r}; it knows "
        "ldmatrix, mma.sync of 16-bit and 8-bit numbers, wgmma of 16-bit numbers in shared memory "
        "summed in float32, cp.async and dp4a",
        assembly.text,
    )


def _ldmatrix(found: re.Match[str], operands: Sequence[str]) -> str:
    count, transposed = int(found["count"]), "true" if found["trans"] else "false"
    outputs = "".join(f" emu_put({place}, emu_r[{n}]);" for n, place in enumerate(operands[:count]))
    return (
        f"{{ uint32_t emu_r[{count}]; emu_ldmatrix<{count}, {transposed}>(emu_r, "
        f"{operands[count]});{outputs} }}"
    )


def _mma(found: re.Match[str], operands: Sequence[str]) -> str | None:
    types = [found[one] for one in "dabc"]
    if found["shape"] not in _MMA_SHAPES.get(found["a"], ()) or found["a"] != found["b"]:
        return None
    m, k = re.findall(r"\d+", found["shape"])[::2]
    groups = [re.findall(r"%(\d+)", group) for group in found["operands"].split("}")[:4]]
    values = []
    for name, group in zip("abc", groups[1:], strict=True):
        bits = ", ".join(f"emu_bits({operands[int(place)]})" for place in group)
        values.append(f"const uint32_t emu_{name}[] = {{{bits}}};")
    outputs = "".join(
        f" emu_put({operands[int(place)]}, emu_d[{n}]);" for n, place in enumerate(groups[0])
    )
    parameters = ", ".join([m, k, *(f"emu_{one}" for one in types)])
    return (
        f"{{ uint32_t emu_d[{len(groups[0])}]; {' '.join(values)} "
        f"emu_mma<{parameters}>(emu_d, emu_a, emu_b, emu_c);{outputs} }}"
    )


def _copy(found: re.Match[str], operands: Sequence[str]) -> str:
    shared, source = operands[int(found["to"])], operands[int(found["from"])]
    size = _operand(found["size"], operands)
    filled = found["source_size"]
    return (
        f"emu_async_copy({shared}, (const void*)({source}), {size}, "
        f"{size if filled is None else _operand(filled, operands)})"
    )


def _copy_if(found: re.Match[str], operands: Sequence[str]) -> str:
    predicate = f"({_operand(found['value'], operands)}) == 1"
    return (
        f"emu_async_copy_if({predicate}, {operands[0]}, (const void*)({operands[1]}), "
        f"{_operand(found['size'], operands)})"
    )


def _wgmma(found: re.Match[str], operands: Sequence[str]) -> str:
    columns = int(found["n"])
    places = re.findall(r"%(\d+)", found["registers"])
    registers = ", ".join(f"&{operands[int(place)]}" for place in places)
    left, right, add = (operands[int(found[one])] for one in ("left", "right", "add"))
    flags = f"{found['left_by_terms']}, {found['right_by_terms']}"
    return (
        f"{{ float* emu_d[] = {{{registers}}}; emu_wgmma<emu_{found['type']}>(emu_d, {columns}, "
        f"{left}, {right}, {add} != 0, {found['scale_left']}, {found['scale_right']}, {flags}); }}"
    )


def _operand(text: str, operands: Sequence[str]) -> str:
    return operands[int(text[1:])] if text.startswith("%") else text


_TYPE = f"(?:{'|'.join(_MMA_TYPES)})"
_SIZE = r"(?:%\d|\d+)"
_BYTES = {"u32": "uint8_t", "s32": "int8_t"}
_INSTRUCTIONS: tuple[tuple[str, Callable[[re.Match[str], Sequence[str]], str | None]], ...] = (
    (
        r"ldmatrix\.sync\.aligned\.m8n8\.x(?P<count>[124])(?P<trans>\.trans)?"
        r"\.shared(?:::cta)?\.b16 ?\{[%\d, ]+\}, \[%\d\];",
        _ldmatrix,
    ),
    (
        r"mma\.sync\.aligned\.(?P<shape>m\d+n8k\d+)\.row\.col"
        rf"\.(?P<d>{_TYPE})\.(?P<a>{_TYPE})\.(?P<b>{_TYPE})\.(?P<c>{_TYPE}) ?"
        r"(?P<operands>(?:\{[%\d, ]+\}(?:, )?){4});",
        _mma,
    ),
    (
        r"cp\.async\.(?:ca|cg)\.shared(?:::cta)?\.global(?:\.L2::\d+B)? \[%(?P<to>\d)\], "
        rf"\[%(?P<from>\d)\], (?P<size>{_SIZE})(?:, (?P<source_size>{_SIZE}))?;",
        _copy,
    ),
    (
        r"\{ ?\.reg \.pred p; setp\.eq\.u32 p, (?P<value>%\d), 1; "
        rf"@p cp\.async\.(?:ca|cg)\.shared\.global \[%0\], \[%1\], (?P<size>{_SIZE}); "
        r"@!p st\.shared\.(?:v[24]\.)?u32 \[%0\], \{[%\d, ]+\}; ?\}",
        _copy_if,
    ),
    (r"cp\.async\.commit_group;", lambda found, operands: "emu_async_commit()"),
    (r"cp\.async\.wait_all;", lambda found, operands: "emu_async_wait(0)"),
    (
        rf"cp\.async\.wait_group (?P<pending>{_SIZE});",
        lambda found, operands: f"emu_async_wait({_operand(found['pending'], operands)})",
    ),
    (
        r"\{ \.reg \.u64 smem_int; cvta\.to\.shared\.u64 smem_int, %1; "
        r"cvt\.u32\.u64 %0, smem_int; \}",
        lambda found, operands: f"{operands[0]} = emu_shared_address({operands[1]})",
    ),
    (
        r"dp4a\.(?P<a>[us]32)\.(?P<b>[us]32) %0, %1, %2, %3;",
        lambda found, operands: (
            f"{operands[0]} = emu_dp4a((const {_BYTES[found['a']]}*)&{operands[1]}, "
            f"(const {_BYTES[found['b']]}*)&{operands[2]}, {operands[3]})"
        ),
    ),
    (
        r"\{\.reg \.pred p; setp\.ne\.b32 p, %2, 0; @!p mov\.b32 %0, 0; "
        r"@p ld\.global\.nc\.f32 %0, \[%1\];\}",
        lambda found, operands: (
            f"{operands[0]} = ({operands[2]}) ? *(const float*)({operands[1]}) : 0.0f"
        ),
    ),
    (
        r"\{ ?\.reg \.pred (?P<p>\w+); setp\.ne\.b32 (?P=p), %(?P<add>\d+), 0; "
        r"wgmma\.mma_async\.sync\.aligned\.m64n(?P<n>\d+)k16"
        r"\.f32\.(?P<type>f16|bf16)\.(?P=type) "
        r"\{(?P<registers>[%\d, ]+)\}, %(?P<left>\d+), %(?P<right>\d+), (?P=p), "
        r"(?P<scale_left>-?1), (?P<scale_right>-?1), (?P<left_by_terms>[01]), "
        r"(?P<right_by_terms>[01]); ?\}",
        _wgmma,
    ),
    (r"wgmma\.fence\.sync\.aligned;", lambda found, operands: "emu_wgmma_fence()"),
    (r"wgmma\.commit_group\.sync\.aligned;", lambda found, operands: "emu_wgmma_commit()"),
    (
        r"wgmma\.wait_group\.sync\.aligned (?P<pending>\d+);",
        lambda found, operands: f"emu_wgmma_wait({found['pending']})",
    ),
    (r"fence\.proxy\.async(?:\.shared::cta)?;", lambda found, operands: "emu_proxy_fence()"),
)


def _read(inside: str) -> Assembly:
    """Read what stands between the parentheses of an assembly statement."""
    fields = list(_split(inside, ":"))
    text = "".join(_STRING.findall(fields[0])).replace("\\n", " ").replace("\\t", " ")
    operands = [
        one[one.index("(") :] for field in fields[1:3] for one in _split(field, ",") if "(" in one
    ]
    return Assembly(" ".join(text.replace("%%", "%").split()), tuple(operands))


def _split(text: str, separator: str) -> Iterator[str]:
    """Split at separators outside strings and parentheses."""
    start = 0
    for place, depth in _outside_strings(text, 0):
        if text[place] == separator and depth == 0:
            yield text[start:place].strip()
            start = place + 1
    yield text[start:].strip()


def _closing(text: str, opening: int) -> int:
    """Return the place of the parenthesis that closes the one at ``opening``."""
    for place, depth in _outside_strings(text, opening):
        if depth == 0:
            return place
    raise UnknownCodeError("an assembly statement of the generated code has no end", text[opening:])


def _outside_strings(text: str, place: int) -> Iterator[tuple[int, int]]:
    """Yield the places from one on that are in no string, and how many brackets are open there."""
    depth = 0
    while place < len(text):
        if (string := _STRING.match(text, place)) is not None:
            place = string.end()
            continue
        depth += (text[place] in "([{") - (text[place] in ")]}")
        yield place, depth
        place += 1


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
    calls = [_caller(name, parameters) for name, parameters in kernels.items()]
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


def _caller(name: str, parameters: str) -> str:
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
