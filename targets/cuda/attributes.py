"""Find the values of a CUDA target's attributes, each with its source.

What the user gave comes first, then what the driver says of a GPU of this machine, or the data
sheet of a model where none is meant (``MODELS``), then what each compute capability guarantees
(``Architecture``). The tables are those of the CUDA C++ programming guide: its section "Compute
Capabilities", tables "Technical Specifications per Compute Capability" and "Throughput of Native
Arithmetic Instructions"; for matrix units, NVIDIA's white papers of V100, T4, A100, GA102, AD102,
H100 and Blackwell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schedlang.errors import TargetError
from schedlang.printed import nearest
from schedlang.targets.cuda.cuda_api import Device, read_device
from schedlang.targets.kinds import check_count, check_rate, full_name

# -- Attributes and their sources -----------------------------------------------------------------

_GUIDE = "CUDA programming guide"
_DRIVER = "the CUDA driver"
_INTEGERS = ("sms", "l2_bytes")
RATES = ("memory_bytes_per_second", "peak_flops", "peak_matrix_flops")


Values = dict[str, tuple[Any, str]]
"""A value and its source, by attribute."""


def resolve(
    name: str, given_arch: str | None, index: int | None, numbers: Mapping[str, float]
) -> dict[str, Any]:
    """Return the attributes of the target that a user means; TargetError if there is none.

    ``index`` is the number of a GPU of this machine, ``numbers`` has the given limits by name.
    """
    name = full_name(name, (DEVICE, *NAMES))
    for key, number in numbers.items():
        (check_rate if key in RATES else check_count)(name, key, number)
    model = MODELS.get(name.partition("/")[2])
    arch, origin = _named_arch(name, model, given_arch)
    device = None
    if index is not None or arch is None:
        device = read_device(index or 0)
        _check_device(name, arch, model, device)
    if arch is None:
        assert device is not None
        arch, origin = arch_of(device.capability), _DRIVER
    entry = architecture_of(arch)
    values = _of_architecture(entry)
    if device is not None:
        values |= _of_device(device, entry)
    else:
        values |= _of_model(model or usual_model(arch), assumed=model is None)
    values["arch"] = arch, origin
    values |= {key: (_as_type(key, number), "given") for key, number in numbers.items()}
    return {
        "name": name,
        "device": None if device is None else device.index,
        "model": model_name(device.name) if device else model.name if model else "",
        "compute_capability": entry.capability,
        "sources": {key: source for key, (_, source) in values.items()},
        **{key: value for key, (value, _) in values.items()},
    }


def _named_arch(name: str, model: Model | None, given: str | None) -> tuple[str | None, str]:
    """Return the architecture that the user means, None for the device's; and its source."""
    if given is not None:
        capability = _capability_of(given)
    if name == DEVICE:
        return given, "given"
    own = model.arch if model else name.partition("/")[2]
    if given is None:
        return own, f"the name {name}"
    if capability != architecture_of(own).capability:
        raise TargetError(f"target {name!r} has arch {own!r} and not {given!r}: give one of both")
    return given, "given"


def _capability_of(arch: str) -> tuple[int, int]:
    try:
        return architecture_of(arch).capability
    except TargetError as error:
        raise TargetError(f"{error}{arch_hint(arch)}") from None


def _of_architecture(entry: Architecture) -> Values:
    numbers = {
        "warp_size": WARP_SIZE,
        "max_threads_per_block": MAX_THREADS_PER_BLOCK,
        "max_threads_per_sm": entry.max_threads_per_sm,
        "max_blocks_per_sm": entry.max_blocks_per_sm,
        "registers_per_block": REGISTERS,
        "registers_per_sm": REGISTERS,
        "max_registers_per_thread": MAX_REGISTERS_PER_THREAD,
        "shared_bytes": STATIC_SHARED_BYTES,
        "shared_bytes_optin": entry.shared_bytes_optin,
        "shared_bytes_per_sm": entry.shared_bytes_per_sm,
        "reserved_shared_bytes": entry.reserved_shared_bytes,
    }
    return {key: (number, _GUIDE) for key, number in numbers.items()}


def _of_model(model: Model, *, assumed: bool) -> Values:
    source = f"assumed, as of {model.name}" if assumed else f"data sheet of {model.name}"
    return {key: (getattr(model, key), source) for key in (*_INTEGERS, *RATES)}


def _of_device(device: Device, entry: Architecture) -> Values:
    """Return what the driver tells; peaks are products of it and the architecture's rates."""
    told = device.numbers
    # Zero stands for "unknown" here.
    values: Values = {
        key: (number, _DRIVER)
        for key, number in told.items()
        if number > 0 and key in (*_of_architecture(entry), *_INTEGERS)
    }
    if "reserved_shared_bytes" in told:
        values["reserved_shared_bytes"] = told["reserved_shared_bytes"], _DRIVER
    fallback = _of_model(MODELS.get(model_name(device.name)) or MODELS[entry.model], assumed=True)
    values = {**{key: fallback[key] for key in (*_INTEGERS, *RATES)}, **values}
    sms, clock = values["sms"][0], 1e3 * told.get("clock_khz", 0)
    if clock:
        peak, matrix = 2 * entry.float32_lanes * sms * clock, entry.matrix_flops * sms * clock
        source = f"{_DRIVER}'s clock, rates of the {_GUIDE}"
        values |= {"peak_flops": (peak, source), "peak_matrix_flops": (matrix, source)}
    bandwidth = 2e3 * told.get("memory_clock_khz", 0) * told.get("memory_bus_bits", 0) / 8
    if bandwidth:
        values["memory_bytes_per_second"] = bandwidth, f"{_DRIVER}'s memory clock and bus"
    return values


def _check_device(name: str, arch: str | None, model: Model | None, device: Device) -> None:
    """Refuse a GPU that is not what the user named."""
    what = f"GPU {device.index} is a {device.name}"
    if model is not None and model.name != model_name(device.name):
        raise TargetError(
            f"target {name!r}: {what}: leave device out to describe a {model.name} that is not here"
        )
    reason = None if arch is None else unfit(arch, device)
    if reason:
        raise TargetError(f"target {name!r}: {what}, {reason}")


def unfit(arch: str, device: Device) -> str:
    """Say why a GPU does not run code for ``arch``; empty if it does.

    Code runs on the capabilities of the same major number from its own on, and code for
    ``sm_90a`` on 9.0 only.
    """
    wanted, found = architecture_of(arch).capability, device.capability
    exact = arch.endswith("a")
    if wanted == found or (not exact and wanted[0] == found[0] and wanted < found):
        return ""
    return (
        f"of compute capability {found[0]}.{found[1]}, which does not run code for {arch}: give "
        f"arch={arch_of(found)!r}"
    )


def _as_type(key: str, number: float) -> float:
    return int(number) if key in _INTEGERS else float(number)


# -- What each compute capability guarantees ------------------------------------------------------

_KIB = 1 << 10
WARP_SIZE = 32
MAX_THREADS_PER_BLOCK = 1024
REGISTERS = 64 * _KIB
"""32-bit registers of a multiprocessor; one block may take them all."""
MAX_REGISTERS_PER_THREAD = 255
STATIC_SHARED_BYTES = 48 * _KIB
"""Shared memory that a block may declare statically; more is dynamic, and asked for at launch."""
_FIRST_WITH_OWN_FEATURES = (9, 0)
_FIRST_WITH_FAMILIES = (10, 0)


@dataclass(frozen=True, slots=True)
class Architecture:
    """Limits and rates of a multiprocessor (SM) of one compute capability.

    Attributes
    ----------
    capability: major and minor number.
    max_threads_per_sm, max_blocks_per_sm: what can be resident at a time.
    shared_bytes_per_sm: shared memory in bytes.
    shared_bytes_optin: the largest shared memory of one block in bytes, if it is dynamic.
    reserved_shared_bytes: bytes of shared memory that the system takes for each block.
    float32_lanes: multiply-adds of float32 a clock.
    matrix_flops: operations of its matrix units a clock: float16, dense, at their fastest.
    model: the GPU, of ``schedlang.targets.cuda.attributes``, whose numbers to assume.
    """

    capability: tuple[int, int]
    max_threads_per_sm: int
    max_blocks_per_sm: int
    shared_bytes_per_sm: int
    shared_bytes_optin: int
    reserved_shared_bytes: int
    float32_lanes: int
    matrix_flops: int
    model: str


def _architecture(
    capability: tuple[int, int],
    threads: int,
    blocks: int,
    shared_kib: tuple[int, int],
    rates: tuple[int, int],
    model: str,
) -> Architecture:
    per_sm, per_block = (_KIB * number for number in shared_kib)
    reserved = _KIB if capability >= (8, 0) else 0
    return Architecture(capability, threads, blocks, per_sm, per_block, reserved, *rates, model)


_ARCHITECTURES = (
    _architecture((7, 0), 2048, 32, (96, 96), (64, 1024), "v100"),
    _architecture((7, 5), 1024, 16, (64, 64), (64, 1024), "t4"),
    _architecture((8, 0), 2048, 32, (164, 163), (64, 2048), "a100"),
    _architecture((8, 6), 1536, 16, (100, 99), (128, 1024), "a10"),
    _architecture((8, 7), 1536, 16, (164, 163), (128, 2048), "orin"),
    _architecture((8, 9), 1536, 24, (100, 99), (128, 1024), "l40s"),
    _architecture((9, 0), 2048, 32, (228, 227), (128, 4096), "h100"),
    _architecture((10, 0), 2048, 32, (228, 227), (128, 8192), "b200"),
    _architecture((10, 3), 2048, 32, (228, 227), (128, 8192), "b200"),
    _architecture((12, 0), 1536, 24, (100, 99), (128, 1024), "rtx-5090"),
    _architecture((12, 1), 1536, 24, (100, 99), (128, 1024), "gb10"),
)
ARCHITECTURES = {entry.capability: entry for entry in _ARCHITECTURES}


def arch_of(capability: tuple[int, int]) -> str:
    """Return the architecture with all that a GPU of this capability has, such as ``"sm_80"``.

    The suffix of ``"sm_90a"`` adds what only this very capability has, such as wgmma.
    """
    suffix = "a" if capability >= _FIRST_WITH_OWN_FEATURES else ""
    return f"sm_{capability[0]}{capability[1]}{suffix}"


def architecture_of(arch: str) -> Architecture:
    """Return the entry of ``"sm_90"``; TargetError lists those there are.

    From sm_90 on there is also ``"sm_90a"``, and from sm_100 on ``"sm_100f"``.
    """
    match = re.fullmatch(r"sm_(\d+)(\d)([af]?)", arch) if isinstance(arch, str) else None
    if match is not None:
        capability = int(match[1]), int(match[2])
        least = {"": (0, 0), "a": _FIRST_WITH_OWN_FEATURES, "f": _FIRST_WITH_FAMILIES}[match[3]]
        if capability in ARCHITECTURES and capability >= least:
            return ARCHITECTURES[capability]
    raise TargetError(
        f"target 'cuda': arch={arch!r} is not known; give one of {', '.join(ARCHES)}, or a letter "
        "more for what only one capability has, such as 'sm_90a'"
    )


ARCHES = tuple(f"sm_{major}{minor}" for major, minor in ARCHITECTURES)
"""The architectures without a suffix: ``"sm_70"``, ..., ``"sm_121"``."""


# -- Models of GPUs, with the numbers of NVIDIA's data sheets -------------------------------------

DEVICE = "cuda"
"""The name that means the device of this machine."""
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Model:
    """A GPU model.

    Attributes
    ----------
    name: short name: ``"h100"``.
    arch: the architecture with all that it has: ``"sm_90a"``.
    sms: number of multiprocessors.
    l2_bytes: size of the second-level cache.
    memory_bytes_per_second: bandwidth of its memory.
    peak_flops: float32 operations a second.
    peak_matrix_flops: float16 operations a second of its matrix units, dense.
    device_names: how the driver calls it.
    """

    name: str
    arch: str
    sms: int
    l2_bytes: int
    memory_bytes_per_second: float
    peak_flops: float
    peak_matrix_flops: float
    device_names: tuple[str, ...]


def _model(
    name: str,
    arch: str,
    sms: int,
    l2_mib: int,
    gigabytes: float,
    teraflops: tuple[float, float],
    *device_names: str,
) -> Model:
    peak, matrix = (1e12 * number for number in teraflops)
    return Model(name, arch, sms, l2_mib * _MIB, 1e9 * gigabytes, peak, matrix, device_names)


_MODELS = (
    _model(
        "v100", "sm_70", 80, 6, 900, (15.7, 125), "Tesla V100-SXM2-16GB", "Tesla V100-SXM2-32GB"
    ),
    _model("t4", "sm_75", 40, 4, 320, (8.1, 65), "Tesla T4"),
    _model("a100", "sm_80", 108, 40, 1555, (19.5, 312), "NVIDIA A100-SXM4-40GB"),
    _model("a100-80gb", "sm_80", 108, 40, 2039, (19.5, 312), "NVIDIA A100-SXM4-80GB"),
    _model("a10", "sm_86", 72, 6, 600, (31.2, 125), "NVIDIA A10"),
    _model("rtx-3090", "sm_86", 82, 6, 936, (35.6, 142), "NVIDIA GeForce RTX 3090"),
    _model("orin", "sm_87", 16, 4, 204.8, (5.3, 42.6), "Orin"),
    _model("l4", "sm_89", 58, 48, 300, (30.3, 121), "NVIDIA L4"),
    _model("l40s", "sm_89", 142, 96, 864, (91.6, 362), "NVIDIA L40S"),
    _model("rtx-4090", "sm_89", 128, 72, 1008, (82.6, 330.3), "NVIDIA GeForce RTX 4090"),
    _model("h100", "sm_90a", 132, 50, 3352, (66.9, 989.4), "NVIDIA H100 80GB HBM3"),
    _model("h200", "sm_90a", 132, 60, 4800, (66.9, 989.4), "NVIDIA H200"),
    _model("b200", "sm_100a", 148, 126, 8000, (80, 2250), "NVIDIA B200"),
    _model("rtx-5090", "sm_120a", 170, 96, 1792, (104.8, 419), "NVIDIA GeForce RTX 5090"),
    _model("gb10", "sm_121a", 48, 24, 273, (29.7, 119), "NVIDIA GB10"),
)
MODELS = {entry.name: entry for entry in _MODELS}
_OWN_ARCHES = tuple(dict.fromkeys(entry.arch for entry in _MODELS if entry.arch not in ARCHES))
NAMES = (
    *(f"cuda/{arch}" for arch in (*ARCHES, *_OWN_ARCHES)),
    *(f"nvidia/{name}" for name in MODELS),
)
"""The names of targets besides ``"cuda"``: architectures and models."""


def arch_hint(arch: object) -> str:
    """Say what an unknown architecture probably means; empty if that is anyone's guess.

    ``"h100"`` and ``"h1000"`` are near a model, ``90``, ``"9.0"`` and ``"compute_90"`` an
    architecture.
    """
    text = str(arch).lower()
    if hint := nearest(text, MODELS, lambda model: f"the model, Target({model!r})"):
        return hint
    number = f"sm_{re.sub('[^0-9]', '', text)}"
    return f"; did you mean arch={number!r}?" if number in ARCHES else ""


def usual_model(arch: str) -> Model:
    """Return the model whose numbers are assumed where only the architecture is known."""
    return MODELS[architecture_of(arch).model]


def model_name(device_name: str) -> str:
    """Return the short name of what the driver calls ``device_name``.

    A model without an entry gets the driver's name in lower case: ``"nvidia-h100-pcie"``.
    """
    for entry in _MODELS:
        if device_name in entry.device_names:
            return entry.name
    return re.sub(r"[^a-z0-9]+", "-", device_name.lower()).strip("-") or "unknown"
