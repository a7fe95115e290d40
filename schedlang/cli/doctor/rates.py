"""What this machine reaches, as measured: arithmetic, copies, how steady it is; a worker."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import numpy as np

import schedlang as sl
from schedlang.cli.doctor.check import Check

# The 90th percentile of equal measurements over the 10th; more is noise that tuning suffers from.
_STEADY = 1.05
# Part of the cores' peaks that they reach together.
_TOGETHER = 0.75


def check_rates() -> Iterator[Check]:
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
        yield Check(
            "peak",
            "warn",
            f"{text}: {all_ / one:.2f} times as much with {cores} cores",
            "other programs run, or the cores share their units: see load and cores",
            figures,
        )
    else:
        yield Check("peak", "ok", text, figures=figures)
    yield _noise(together)
    copied = measured_copy()
    yield Check(
        "copy rate",
        "ok",
        f"{copied / 1e9:.3g} GB/s, reads and writes together, in arrays that no cache holds",
        figures={"bytes_per_second": copied},
    )


def _noise(samples: object) -> Check:
    low, high = np.percentile(np.asarray(samples, dtype=float), [10, 90])
    spread = float(high / low)
    text = f"equal measurements differ by {spread - 1:.1%} (90th over 10th percentile)"
    figures = {"spread": spread}
    if spread <= _STEADY:
        return Check("noise", "ok", text, figures=figures)
    return Check(
        "noise",
        "warn",
        text,
        "stop other programs; on a shared machine, trust differences in the finals only",
        figures,
    )


def check_measuring() -> Check:
    """Have a worker build, run and verify a small program."""
    target = sl.Target("cpu")
    workload = sl.workloads.matmul(32, 32, 32)
    schedule = sl.default_schedule(workload, target)
    with target.measurer(workload, verify="all") as measurer:
        [found] = measurer.measure([sl.Candidate(0, schedule.mod)])
    if found.ok and found.verified:
        return Check("measuring", "ok", "a worker built, ran and verified a program")
    why = found.message or "its results were not verified"
    return Check(
        "measuring",
        "fail",
        f"a worker could not measure a small matmul: {found.status}: {why}",
        "candidates run in worker processes: there must be room for one more process, for its "
        f"memory, and for its files in {tempfile.gettempdir()}, from which programs may be run",
    )
