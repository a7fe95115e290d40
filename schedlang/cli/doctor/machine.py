"""The cores of this machine, who else uses them, its clock, its memory and its GPUs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import schedlang as sl
from schedlang.cli.doctor.check import Check

_CPU = "sys/devices/system/cpu"
_GIB = 1 << 30
# A worker may use at least this much memory.
_WORKER_BYTES = 2 << 30
# With a load above it, another program runs on one of the cores much of the time.
_LOAD = 0.5
# How long a core is watched, and the part of it that other work may take.
_WATCHED_SECONDS = 0.25
_WAITED = 0.1


def check_cores() -> Check:
    """Say which cores schedlang uses, and which threads TVM would take by itself."""
    from schedlang.targets import host

    target = sl.Target("cpu")
    hardware = host.usable_cpus()
    alone = tvm_threads()
    text = (
        f"{target.mcpu}, {target.cores} cores ({len(hardware)} hardware threads), vectors of "
        f"{target.vector_bits} bits; TVM by itself would take {alone} "
        f"thread{'' if alone == 1 else 's'}, schedlang takes {target.cores}"
    )
    figures = {
        "key": target.key,
        "cores": target.cores,
        "hardware_threads": len(hardware),
        "tvm_threads": alone,
        "vector_bits": target.vector_bits,
    }
    quota = cpu_quota()
    if quota is not None and quota < target.cores:
        return Check(
            "cores",
            "warn",
            f"{text}; this container may use {quota:g} of them at a time",
            f"raise the container's limit, or tune with --target cpu,cores={max(int(quota), 1)}",
            figures | {"quota": quota},
        )
    return Check("cores", "ok", text, figures=figures)


def check_load() -> Check:
    """Say whether other programs run."""
    load = os.getloadavg()[0]
    figures = {"load": load}
    if load < _LOAD:
        return Check("load", "ok", f"{load:.2f}: no other program runs", figures=figures)
    return Check(
        "load",
        "warn",
        f"{load:.2f}: in the last minute, other programs ran",
        "stop them while you tune: they make latencies longer, and their order uncertain",
        figures,
    )


def check_waiting(
    threads: Path = Path("/proc/self/task"), processes: Path = Path("/proc")
) -> Check:
    """Say whether the system tells when other work takes a core, and how often it does now."""
    from schedlang.targets.core_watch import CoreWatch
    from schedlang.targets.cpu.waiting import ThreadWaits

    cores, waits = CoreWatch(processes), ThreadWaits(threads)
    waits.look_for_threads()
    waits.begin()
    start = time.perf_counter()
    while (seconds := time.perf_counter() - start) < _WATCHED_SECONDS:
        pass
    waited = waits.waited(seconds)
    waits.close()
    use = cores.use()
    used = "" if use is None else f"; {use}"
    figures: dict[str, Any] = {
        "waited": None if waited is None else waited / seconds,
        "others": None if use is None else use.others,
        "stolen": None if use is None else use.stolen,
    }
    if waited is None:
        return Check(
            "waiting",
            "warn",
            f"the system does not tell when other work takes a core from a program{used}",
            "tune while nothing else runs: only work that is timed after candidates tells what "
            "disturbs them",
            figures,
        )
    share = waited / seconds
    if share < _WAITED:
        return Check(
            "waiting",
            "ok",
            f"other work took {share:.1%} of a core's time just now{used}",
            figures=figures,
        )
    return Check(
        "waiting",
        "warn",
        f"other work took {share:.0%} of a core's time just now{used}",
        "samples that it disturbs are taken again, so tuning takes longer: stop it if you can",
        figures,
    )


def check_clock(root: Path = Path("/")) -> Check:
    """Say whether the clock changes with the load."""
    folder = root / _CPU
    no_turbo, boost = _text(folder / "intel_pstate/no_turbo"), _text(folder / "cpufreq/boost")
    governor = _text(folder / "cpu0/cpufreq/scaling_governor")
    turbo = None
    if no_turbo in ("0", "1"):
        turbo = no_turbo == "0"
    elif boost in ("0", "1"):
        turbo = boost == "1"
    figures = {"turbo": turbo, "governor": governor}
    if turbo is None and governor is None:
        return Check(
            "clock", "ok", "turbo is not known here (a virtual machine); see noise", figures=figures
        )
    states = {True: "turbo is on", False: "turbo is off", None: "turbo is not known"}
    text = states[turbo] + (f", governor {governor}" if governor else "")
    if governor == "powersave" and no_turbo is None:
        remedy = "cpupower frequency-set --governor performance"
        return Check("clock", "warn", f"{text}: the clock stays low", remedy, figures)
    if turbo:
        text += ": the clock changes with load and temperature; finals take turns for that reason"
    return Check("clock", "ok", text, figures=figures)


def check_memory() -> Check:
    """Say how much memory is free for workers."""
    from schedlang.targets import host

    free = host.available_memory()
    if free is None:
        return Check("memory", "ok", "how much is free is not known")
    cores = sl.Target("cpu").cores
    figures = {"free_bytes": free}
    text = f"{free / _GIB:.1f} GiB are free"
    if free >= cores * _WORKER_BYTES:
        return Check("memory", "ok", text, figures=figures)
    return Check(
        "memory",
        "warn",
        f"{text}, for {cores} workers",
        "stop other programs: with little memory there are fewer workers for large tensors",
        figures,
    )


def check_gpu() -> Iterator[Check]:
    """Say which GPUs there are, and whether programs can be compiled for them."""
    from schedlang.targets.cuda import nvcc
    from schedlang.targets.cuda.device import device_count, driver_version, read_device, why_none

    devices = [read_device(number) for number in range(device_count())]
    compiler, version = nvcc.find(), nvcc.version()
    if devices:
        text = ", ".join(one.name for one in devices) + f", driver for CUDA {driver_version()}"
        yield Check("GPU", "ok", text, figures={"devices": [one.name for one in devices]})
    else:
        yield Check("GPU", "ok", f"none: {why_none()}; CPUs can be tuned", figures={"devices": []})
    figures = {"version": None if compiler is None else version}
    if compiler is not None:
        yield Check("nvcc", "ok", f"{version}, {compiler}", figures=figures)
    elif devices:
        yield Check(
            "nvcc",
            "warn",
            "none: registers and spills of candidates are not known",
            "install the CUDA toolkit, or put its bin folder on the PATH",
            figures,
        )
    else:
        yield Check("nvcc", "ok", "none: only programs for GPUs need it", figures=figures)


def tvm_threads() -> int:
    """Return the number of threads that TVM takes where nobody tells it."""
    from schedlang.tvm.codegen import runtime

    found: list[int] = []
    # Each thread has a pool of its own: the one of this thread stays as it is.
    thread = threading.Thread(target=lambda: found.append(runtime.thread_count()))
    thread.start()
    thread.join()
    return found[0] if found else 0


def cpu_quota(root: Path = Path("/")) -> float | None:
    """Return how many cores a container may use at a time; None without a limit."""
    group = root / "sys/fs/cgroup"
    both = (_text(group / "cpu.max") or "").split()
    if len(both) != 2:
        both = [
            _text(group / "cpu" / name) or "" for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        ]
    if not (both[0].isdigit() and both[1].isdigit() and int(both[1])):
        return None
    return int(both[0]) / int(both[1])


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return None
