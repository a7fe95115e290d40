"""Check whether this machine can run programs for a target."""

from __future__ import annotations

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


def _is_one_cpu(target: CPUMachine) -> bool:
    """Tell a target that is one model of CPU from one that is an instruction set."""
    return target.machine == target.mcpu != GENERIC
