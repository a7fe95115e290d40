"""Tune a bfloat16 product with AVX-512 BF16, whose intrinsic the module defines: TVM has none."""

import argparse

from tvm import te

import schedlang as sl
from schedlang.analysis.intrinsics import host_features
from schedlang.measurement import describe_latency
from schedlang.modules import UseBF16Dot


def bfloat16_matmul(n: int, m: int, k: int) -> sl.Workload:
    """Return C = A @ B in float32 of bfloat16 operands."""
    a = te.placeholder((n, k), "bfloat16", "A")
    b = te.placeholder((k, m), "bfloat16", "B")
    r = te.reduce_axis((0, k), "k")
    c = te.compute(
        (n, m),
        lambda i, j: te.sum(a[i, r].astype("float32") * b[r, j].astype("float32"), [r]),
        "C",
    )
    return sl.workloads.from_te([a, b, c], "bfloat16_matmul")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--trials", type=int, default=64, help="candidates for each kernel")
    arguments = parser.parse_args()
    if "avx512bf16" not in host_features():
        raise SystemExit("This CPU has no AVX-512 BF16.")
    sizes = (arguments.size,) * 3
    space = sl.default_space("cpu") + UseBF16Dot()
    halved = sl.tune(bfloat16_matmul(*sizes), space=space, trials=arguments.trials)
    plain = sl.tune(sl.workloads.matmul(*sizes), trials=arguments.trials)
    print(halved.best.trace.as_python())
    for name, result in (("float32", plain), ("bfloat16", halved)):
        state = "verified" if result.best.record.verified else "NOT VERIFIED"
        print(f"{name}: {describe_latency(result.best.latency, result.workload.flops)}, {state}")
    print(f"{plain.best.latency / halved.best.latency:.2f}x faster than float32")


if __name__ == "__main__":
    main()
