"""Check whether this machine can run programs for a target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedlang.errors import TargetError
from schedlang.targets import host
from schedlang.targets.cpu import features
from schedlang.targets.cpu.machine import CPUMachine
from schedlang.targets.cpu.named import GENERIC, NAMED
from schedlang.tvm import codegen


def missing_features(target: CPUMachine) -> tuple[str, ...]:
    """Return the features that ``target`` needs and this machine lacks, by LLVM's names."""
    wanted = dict.fromkeys(features.needed(target.attributes))
    if target.name in NAMED:
        wanted |= dict.fromkeys(NAMED[target.name].requires)
    if _is_one_cpu(target):
        # LLVM may use every feature of this CPU.
        wanted |= dict.fromkeys(sorted(target.features & features.KNOWN))
    available = features.host_features()
    return tuple(feature for feature in wanted if feature not in available)


def check_present(target: CPUMachine) -> None:
    """Raise TargetError unless this machine can run programs for ``target``."""
    here = codegen.host_cpu()
    if target.architecture != host.architecture():
        raise TargetError(
            f"target {target.key!r} is for {target.architecture}, and this machine is "
            f"{host.architecture()}: compile for it here, and measure on such a machine"
        )
    missing = ", ".join(missing_features(target))
    if _is_one_cpu(target) and target.mcpu != here:
        lacks = f", which lacks {missing}" if missing else ""
        raise TargetError(
            f"target {target.key!r} is a {target.mcpu}, and this machine is a {here}{lacks}: "
            "measure on that machine"
        )
    if missing:
        raise TargetError(
            f"target {target.key!r} needs {missing}, and this machine, a {here}, lacks that: "
            "measure on one that has it, or choose a target that needs less"
        )
    if target.cores > len(target.cpus):
        raise TargetError(
            f"target {target.key!r} wants {target.cores} cores, and this process may use "
            f"{len(target.cpus)}: widen its affinity mask or ask for fewer"
        )


def requirements(target: CPUMachine) -> dict[str, Any]:
    """Return what a machine must have to run code for ``target``, as JSON values."""
    return {
        "architecture": target.architecture,
        "mcpu": target.mcpu,
        "features": sorted(target.features & features.KNOWN),
        "sve_bits": target.llvm_options()["sve_bits"],
    }


def check_requirements(recorded: Mapping[str, Any]) -> None:
    """Raise TargetError unless this machine has what ``requirements`` returned."""
    what = f"the library was made for {recorded['key']}"
    if recorded["architecture"] != host.architecture():
        raise TargetError(
            f"{what}, a machine of the architecture {recorded['architecture']}, and this one is "
            f"{host.architecture()}: export the program for this machine"
        )
    missing = [one for one in recorded["features"] if one not in features.host_features()]
    if missing:
        raise TargetError(
            f"{what} (LLVM's {recorded['mcpu']}), and this machine, a {codegen.host_cpu()}, lacks "
            f"{', '.join(missing)}: its code would end the process. Export it for this machine, or "
            "for one of the named targets that both have, such as x86/avx2"
        )
    wide, here = recorded["sve_bits"], host.sve_bits() or 0
    if wide > here:
        raise TargetError(
            f"{what}, whose SVE registers have {wide} bits, and here they have {here}: export the "
            "program for this machine"
        )


def _is_one_cpu(target: CPUMachine) -> bool:
    """Tell a target that is one model of CPU from one that is an instruction set."""
    return target.machine == target.mcpu != GENERIC
