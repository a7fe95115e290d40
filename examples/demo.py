"""Tune a matmul and a convolution on this CPU, print the best schedules and what to do next."""

import argparse
import json
import os
import shlex
import sys
import warnings

import schedlang as sl
from schedlang.measurement import describe_latency

WORKLOADS = (
    sl.workloads.matmul(512, 512, 512),
    sl.workloads.C2D(  # ResNet-18, second stage
        height=56, width=56, in_channels=64, out_channels=64, kernel_size=3, stride=1, padding=1
    ),
)

DONE = """
== What this did

Schedules of {programs} programs were drawn from the space for this CPU, built in worker processes,
compared with the unscheduled program's results, and timed. {counted}
{database} holds every measurement, and the schedules that are shown above.

== What to do next

In {python}, in this folder:

    import schedlang as sl

    workload = {workload}
    best = sl.best(workload, {path}, "cpu")
    print(best.trace.as_python())      # the schedule, as the Python that makes it
    print(best.mod.script())           # the program that it makes
    kernel = best.build()              # compiled: {call} writes {output}
    best.export_library("{name}.so")   # for other programs; it needs a C compiler
    mod = sl.apply(workload.mod, {path})  # the best programs in place of a module's own

{python} {script} --trials {more} goes on from here with more candidates.
docs/tuning.md says how to tune a program of your own, README.md how to write a module.
"""


def show(result: sl.TuneResult) -> None:
    """Print the best trace as Python and one line of figures."""
    best, flops = result.best, result.workload.flops
    print(f"\n# The best of {len(result.records)} candidates for {result.workload}\n")
    print(best.trace.as_python())
    verified = "verified" if best.record.verified else "NOT VERIFIED"
    print(
        f"{result.workload.name}: unscheduled {describe_latency(result.reference_latency, 0)}, "
        f"best {describe_latency(best.latency, flops)}, {result.speedup:.0f}x faster, "
        f"outputs {verified}, in {result.seconds:.0f} s"
    )


def summarize(results: list[sl.TuneResult], database: str, trials: int) -> None:
    """Print what was done, where it is, and what to do with it."""
    workload = results[0].workload
    arrays = [argument.name.lower() for argument in workload.args]
    known = sum(result.earlier for result in results)
    counted = f"{sum(len(result.records) for result in results) - known} were measured now."
    if known:
        counted += f"\n{known} were in {database} before; delete the file to begin again."
    print(
        DONE.format(
            programs=len(results),
            counted=counted,
            database=database,
            path=json.dumps(database),
            workload=workload,
            name=workload.name,
            call=f"kernel({', '.join(arrays)})",
            output=arrays[-1],
            python=shlex.quote(os.path.relpath(sys.executable)),
            script=shlex.quote(os.path.relpath(__file__)),
            more=4 * trials,
        ).rstrip()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=64, help="candidates for each kernel")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--database", default="demo.db", help="the file for all measurements")
    given = parser.parse_args()
    # It is said below.
    warnings.simplefilter("ignore", sl.errors.InterruptedWarning)
    target = sl.Target("cpu")
    print(f"Tuning on {target.cores} cores of {target.mcpu}; {given.database} keeps the results.")
    results = []
    for number, workload in enumerate(WORKLOADS, 1):
        # At once, also where the output goes to a file: this takes a minute.
        print(
            f"\n[{number}/{len(WORKLOADS)}] {workload.name}: measuring up to {given.trials} "
            "candidates; Ctrl-C stops",
            flush=True,
        )
        results.append(
            sl.tune(
                *(workload, target),
                trials=given.trials,
                seed=given.seed,
                database=given.database,
            )
        )
        if results[-1].interrupted:
            sys.exit(f"{workload.name}: {results[-1].finished}")
        show(results[-1])
    summarize(results, given.database, given.trials)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted before anything was measured")
