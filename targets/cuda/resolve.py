"""Find the values of a CUDA target's attributes, each with its source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedlang.errors import TargetError
from schedlang.targets.cuda import architectures
from schedlang.targets.cuda.architectures import Architecture, arch_of, architecture_of
from schedlang.targets.cuda.device import Device, read_device
from schedlang.targets.cuda.named import (
    DEVICE,
    MODELS,
    NAMES,
    Model,
    arch_hint,
    model_name,
    usual_model,
)
from schedlang.targets.kinds import full_name
from schedlang.targets.numbers import check_count, check_rate

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
        "warp_size": architectures.WARP_SIZE,
        "max_threads_per_block": architectures.MAX_THREADS_PER_BLOCK,
        "max_threads_per_sm": entry.max_threads_per_sm,
        "max_blocks_per_sm": entry.max_blocks_per_sm,
        "registers_per_block": architectures.REGISTERS,
        "registers_per_sm": architectures.REGISTERS,
        "max_registers_per_thread": architectures.MAX_REGISTERS_PER_THREAD,
        "shared_bytes": architectures.STATIC_SHARED_BYTES,
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
