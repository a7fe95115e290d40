"""``schedlang doctor``: what a machine is good for, and what is wrong with it, one check a line.

Checked are its cores and who else uses them, its clock, memory, GPUs and rates, besides what
``checks`` has.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import schedlang as sl
from schedlang.cli.checks import (
    DoctorCheck,
    check_compiler,
    check_database,
    check_environment,
    check_extras,
    check_tvm,
    check_versions,
    run_checks,
    verdict,
)
from schedlang.cli.verb import DONE, FAILED, Answer, note, verb

_CPU = "sys/devices/system/cpu"
_GIB = 1 << 30
# A worker may use at least this much memory.
_WORKER_BYTES = 2 << 30
# With a load above it, another program runs on one of the cores much of the time.
_LOAD = 0.5
# How long a core is watched, and the part of it that other work may take.
_WATCHED_SECONDS = 0.25
_WAITED = 0.1


def check_cores() -> DoctorCheck:
    """Say which cores schedlang uses, and which threads TVM would take by itself."""
    from schedlang import host

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
    quota = host.cpu_quota()
    if quota is not None and quota < target.cores:
        return DoctorCheck(
            "cores",
            "warn",
            f"{text}; this container may use {quota:g} of them at a time",
            f"raise the container's limit, or tune with --target cpu,cores={max(int(quota), 1)}",
            figures | {"quota": quota},
        )
    return DoctorCheck("cores", "ok", text, figures=figures)


def check_load() -> DoctorCheck:
    """Say whether other programs run."""
    load = os.getloadavg()[0]
    figures = {"load": load}
    if load < _LOAD:
        return DoctorCheck("load", "ok", f"{load:.2f}: no other program runs", figures=figures)
    return DoctorCheck(
        "load",
        "warn",
        f"{load:.2f}: in the last minute, other programs ran",
        "stop them while you tune: they make latencies longer, and their order uncertain",
        figures,
    )


def check_waiting(
    threads: Path = Path("/proc/self/task"), processes: Path = Path("/proc")
) -> DoctorCheck:
    """Say whether the system tells when other work takes a core, and how often it does now."""
    from schedlang.targets.measure.contention import CoreWatch, ThreadWaits

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
        return DoctorCheck(
            "waiting",
            "warn",
            f"the system does not tell when other work takes a core from a program{used}",
            "tune while nothing else runs: only work that is timed after candidates tells what "
            "disturbs them",
            figures,
        )
    share = waited / seconds
    if share < _WAITED:
        return DoctorCheck(
            "waiting",
            "ok",
            f"other work took {share:.1%} of a core's time just now{used}",
            figures=figures,
        )
    return DoctorCheck(
        "waiting",
        "warn",
        f"other work took {share:.0%} of a core's time just now{used}",
        "samples that it disturbs are taken again, so tuning takes longer: stop it if you can",
        figures,
    )


def check_clock(root: Path = Path("/")) -> DoctorCheck:
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
        return DoctorCheck(
            "clock", "ok", "turbo is not known here (a virtual machine); see noise", figures=figures
        )
    states = {True: "turbo is on", False: "turbo is off", None: "turbo is not known"}
    text = states[turbo] + (f", governor {governor}" if governor else "")
    if governor == "powersave" and no_turbo is None:
        remedy = "cpupower frequency-set --governor performance"
        return DoctorCheck("clock", "warn", f"{text}: the clock stays low", remedy, figures)
    if turbo:
        text += ": the clock changes with load and temperature; finals take turns for that reason"
    return DoctorCheck("clock", "ok", text, figures=figures)


def check_memory() -> DoctorCheck:
    """Say how much memory is free for workers."""
    from schedlang import host

    free = host.available_memory()
    if free is None:
        return DoctorCheck("memory", "ok", "how much is free is not known")
    cores = sl.Target("cpu").cores
    figures = {"free_bytes": free}
    text = f"{free / _GIB:.1f} GiB are free"
    if free >= cores * _WORKER_BYTES:
        return DoctorCheck("memory", "ok", text, figures=figures)
    return DoctorCheck(
        "memory",
        "warn",
        f"{text}, for {cores} workers",
        "stop other programs: with little memory there are fewer workers for large tensors",
        figures,
    )


def check_gpu() -> Iterator[DoctorCheck]:
    """Say which GPUs there are, and whether programs can be compiled for them."""
    from schedlang.targets.cuda import nvcc
    from schedlang.targets.cuda.cuda_api import device_count, driver_version, read_device, why_none

    devices = [read_device(number) for number in range(device_count())]
    compiler, version = nvcc.find(), nvcc.version()
    if devices:
        text = ", ".join(one.name for one in devices) + f", driver for CUDA {driver_version()}"
        yield DoctorCheck("GPU", "ok", text, figures={"devices": [one.name for one in devices]})
    else:
        yield DoctorCheck(
            "GPU", "ok", f"none: {why_none()}; CPUs can be tuned", figures={"devices": []}
        )
    figures = {"version": None if compiler is None else version}
    if compiler is not None:
        yield DoctorCheck("nvcc", "ok", f"{version}, {compiler}", figures=figures)
    elif devices:
        yield DoctorCheck(
            "nvcc",
            "warn",
            "none: registers and spills of candidates are not known",
            "install the CUDA toolkit, or put its bin folder on the PATH",
            figures,
        )
    else:
        yield DoctorCheck("nvcc", "ok", "none: only programs for GPUs need it", figures=figures)


def tvm_threads() -> int:
    """Return the number of threads that TVM takes where nobody tells it."""
    from schedlang.tvm.codegen import runtime

    found: list[int] = []
    # Each thread has a pool of its own: the one of this thread stays as it is.
    thread = threading.Thread(target=lambda: found.append(runtime.thread_count()))
    thread.start()
    thread.join()
    return found[0] if found else 0


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return None


# The 90th percentile of equal measurements over the 10th; more is noise that tuning suffers from.
_STEADY = 1.05
# Part of the cores' peaks that they reach together.
_TOGETHER = 0.75


def check_rates() -> Iterator[DoctorCheck]:
    """Measure the peak with one thread and with all, how steady it is, and copying."""
    from schedlang.targets.cpu.rates import measured_copy, sampled_peak
    from schedlang.targets.measure.timing import TimingPolicy

    policy = TimingPolicy(
        min_sample_seconds=0.01, min_repeats=60, max_repeats=60, budget_seconds=3.0
    )
    cores = sl.Target("cpu").cores
    together = sampled_peak(cores, policy)
    single = sampled_peak(1, policy) if cores > 1 else together
    one, all_ = max(single), max(together)
    text = f"{all_ / 1e9:.4g} GFLOP/s in float32 with {cores} threads, {one / 1e9:.4g} with one"
    figures = {"peak_flops": all_, "peak_flops_one_thread": one, "threads": cores}
    if all_ < _TOGETHER * cores * one:
        yield DoctorCheck(
            "peak",
            "warn",
            f"{text}: {all_ / one:.2f} times as much with {cores} cores",
            "other programs run, or the cores share their units: see load and cores",
            figures,
        )
    else:
        yield DoctorCheck("peak", "ok", text, figures=figures)
    yield _noise(together)
    copied = measured_copy()
    yield DoctorCheck(
        "copy rate",
        "ok",
        f"{copied / 1e9:.3g} GB/s, reads and writes together, in arrays that no cache holds",
        figures={"bytes_per_second": copied},
    )


def _noise(samples: object) -> DoctorCheck:
    import numpy as np

    low, high = np.percentile(np.asarray(samples, dtype=float), [10, 90])
    spread = float(high / low)
    text = f"equal measurements differ by {spread - 1:.1%} (90th over 10th percentile)"
    figures = {"spread": spread}
    if spread <= _STEADY:
        return DoctorCheck("noise", "ok", text, figures=figures)
    return DoctorCheck(
        "noise",
        "warn",
        text,
        "stop other programs; on a shared machine, trust differences in the finals only",
        figures,
    )


def check_measuring() -> DoctorCheck:
    """Have a worker build, run and verify a small program."""
    target = sl.Target("cpu")
    workload = sl.workloads.matmul(32, 32, 32)
    schedule = sl.default_schedule(workload, target)
    with target.measurer(workload, verify="all") as measurer:
        [found] = measurer.measure([sl.Candidate(0, schedule.mod)])
    if found.ok and found.verified:
        return DoctorCheck("measuring", "ok", "a worker built, ran and verified a program")
    why = found.message or "its results were not verified"
    return DoctorCheck(
        "measuring",
        "fail",
        f"a worker could not measure a small matmul: {found.status}: {why}",
        "candidates run in worker processes: there must be room for one more process, for its "
        f"memory, and for its files in {tempfile.gettempdir()}, from which programs may be run",
    )


@verb
def doctor(
    quick: Annotated[
        bool, typer.Option("--quick", help="Measure nothing: no peak, copy rate or noise.")
    ] = False,
    database: Annotated[Path | None, typer.Option(help="Check this database, too.")] = None,
) -> Answer:
    """Check this machine: versions, cores, noise, measured peak and copy rate, GPU, a database."""
    # Versions come first: with a wrong one, importing TVM may end the process.
    makers: list[tuple[str, Callable[[], DoctorCheck | Iterable[DoctorCheck]]]] = [
        ("versions", check_versions),
        ("tvm", check_tvm),
        ("extras", check_extras),
        ("C compiler", check_compiler),
        ("environment", check_environment),
        ("cores", check_cores),
        ("memory", check_memory),
        ("clock", check_clock),
        ("load", check_load),
        ("waiting", check_waiting),
    ]
    if not quick:
        makers += [("peak", check_rates), ("measuring", check_measuring)]
    makers.append(("GPU", check_gpu))
    if database is not None:
        makers.append(("database", partial(check_database, database)))
    if not quick:
        note("measuring takes about 15 s; --quick leaves it out")
    checks = list(run_checks(makers))
    failed = any(one.state == "fail" for one in checks)
    document = {"ok": not failed, "checks": checks}
    text = "\n".join([*map(str, checks), verdict(checks)])
    return Answer(text, document, FAILED if failed else DONE)
