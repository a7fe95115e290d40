"""The cores of this machine, who else uses them, its clock and its memory."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

from schedlang.cli.doctor.check import Check

_CPU = "sys/devices/system/cpu"
_GIB = 1 << 30
# A worker may use at least this much memory.
_WORKER_BYTES = 2 << 30
# With a load above it, another program runs on one of the cores much of the time.
_LOAD = 0.5


def check_cores() -> Iterator[Check]:
    """Say which cores schedlang uses, and which threads TVM would take by itself."""
    import schedlang as sl
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
        yield Check(
            "cores",
            "warn",
            f"{text}; this container may use {quota:g} of them at a time",
            f"raise the container's limit, or tune with --target cpu,cores={max(int(quota), 1)}",
            figures | {"quota": quota},
        )
        return
    yield Check("cores", "ok", text, figures=figures)


def check_load() -> Iterator[Check]:
    """Say whether other programs run."""
    load = os.getloadavg()[0]
    figures = {"load": load}
    if load < _LOAD:
        yield Check("load", "ok", f"{load:.2f}: no other program runs", figures=figures)
        return
    yield Check(
        "load",
        "warn",
        f"{load:.2f}: in the last minute, other programs ran",
        "stop them while you tune: they make latencies longer, and their order uncertain",
        figures,
    )


def check_clock(root: Path = Path("/")) -> Iterator[Check]:
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
        yield Check(
            "clock", "ok", "turbo is not known here (a virtual machine); see noise", figures=figures
        )
        return
    states = {True: "turbo is on", False: "turbo is off", None: "turbo is not known"}
    text = states[turbo] + (f", governor {governor}" if governor else "")
    if governor == "powersave" and no_turbo is None:
        remedy = "cpupower frequency-set --governor performance"
        yield Check("clock", "warn", f"{text}: the clock stays low", remedy, figures)
        return
    if turbo:
        text += ": the clock changes with load and temperature; finals take turns for that reason"
    yield Check("clock", "ok", text, figures=figures)


def check_memory() -> Iterator[Check]:
    """Say how much memory is free for workers."""
    import schedlang as sl
    from schedlang.targets import host

    free = host.available_memory()
    if free is None:
        yield Check("memory", "ok", "how much is free is not known")
        return
    cores = sl.Target("cpu").cores
    figures = {"free_bytes": free}
    text = f"{free / _GIB:.1f} GiB are free"
    if free >= cores * _WORKER_BYTES:
        yield Check("memory", "ok", text, figures=figures)
        return
    yield Check(
        "memory",
        "warn",
        f"{text}, for {cores} workers",
        "stop other programs: with little memory there are fewer workers for large tensors",
        figures,
    )


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
