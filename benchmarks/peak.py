"""Measure this machine's arithmetic peak and its rate of copies, with one thread and with all.

``schedlang.targets.cpu.rates`` measures three rates: multiply-adds that stay in registers,
multiply-adds that read their operands from the L1 cache, as a matrix product does, and copies of
arrays that no cache holds. ``schedlang doctor`` prints them too.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import schedlang as sl
from schedlang.targets.cpu.rates import fed_peak, measured_copy, measured_peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="no effect: a run takes seconds")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    target = sl.Target("cpu")
    rows = []
    print("threads  GFLOPS  a thread  fed from L1  copies, GB/s")
    for threads in sorted({1, target.cores}):
        peak, fed, copied = measured_peak(threads), fed_peak(threads), measured_copy(threads)
        rows.append({"threads": threads, "flops": peak, "fed_flops": fed, "copied_bytes": copied})
        print(
            f"{threads:7} {peak / 1e9:7.1f} {peak / 1e9 / threads:9.1f} {fed / 1e9:12.1f} "
            f"{copied / 1e9:13.1f}"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps({"target": target.key, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
