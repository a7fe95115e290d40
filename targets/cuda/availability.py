"""Find the GPU of this machine that runs the programs of a target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedlang.errors import TargetError
from schedlang.targets.cuda.device import Device, device_count, read_device, why_none
from schedlang.targets.cuda.machine import CUDAMachine
from schedlang.targets.cuda.named import model_name
from schedlang.targets.cuda.resolve import unfit


def find_device(target: CUDAMachine) -> Device:
    """Return the GPU of this machine that runs programs for ``target``.

    That is the one it was made from, or else the first that fits. TargetError says why there is
    none.
    """
    indices = range(device_count()) if target.device is None else [target.device]
    if not indices:
        raise TargetError(
            f"target {target.key!r} needs a GPU to run its programs, and {why_none()}: measure on "
            "a machine that has one; here they can be compiled and checked "
            "(schedlang.targets.cuda.check)"
        )
    reasons = {}
    for device in map(read_device, indices):
        reason = _misfit(target, device)
        if not reason:
            return device
        reasons[device.index] = f"GPU {device.index} is a {device.name} {reason}"
    raise TargetError(
        f"target {target.key!r} is another machine than this: {'; '.join(reasons.values())}. "
        'Measure on a machine that has one, or take Target("cuda"), the GPU that is here'
    )


def _misfit(target: CUDAMachine, device: Device) -> str:
    reason = unfit(target.arch, device)
    if reason:
        return reason
    if target.model and target.model != model_name(device.name):
        return f"and no {target.model}"
    sms = device.numbers.get("sms", target.sms)
    fixed = target.model or target.sources["sms"] == "given"
    return f"with {sms} multiprocessors and not {target.sms}" if fixed and sms != target.sms else ""


def check_requirements(recorded: Mapping[str, Any]) -> None:
    """Raise TargetError unless a GPU here runs the code of a library that records ``arch``."""
    what = f"the library was made for {recorded['key']}"
    devices = [read_device(index) for index in range(device_count())]
    if not devices:
        raise TargetError(f"{what}: its functions run on a GPU, and {why_none()}")
    reasons = [unfit(recorded["arch"], device) for device in devices]
    if all(reasons):
        raise TargetError(
            f"{what}, and the GPU here, a {devices[0].name}, is {reasons[0]} and export it again"
        )
