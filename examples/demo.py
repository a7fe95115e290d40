"""Tune a matmul and a convolution on this CPU and print the best schedules."""

import argparse

import schedlang as sl
from schedlang.measurement import describe_latency

WORKLOADS = (
    sl.workloads.matmul(512, 512, 512),
    sl.workloads.C2D(  # ResNet-18, second stage
        height=56, width=56, in_channels=64, out_channels=64, kernel_size=3, stride=1, padding=1
    ),
)


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=64, help="candidates for each kernel")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    target = sl.Target("cpu")
    print(f"Tuning on {target.cores} cores of {target.mcpu}.")
    for workload in WORKLOADS:
        show(sl.tune(workload, target, trials=arguments.trials, seed=arguments.seed))


if __name__ == "__main__":
    main()
