"""Tune a product of 8-bit integers with AVX-512 VNNI: the default space and a hardware module."""

import argparse

from tvm import te

import schedlang as sl
from schedlang.analysis.intrinsics import host_features
from schedlang.measurement import describe_latency
from schedlang.modules import UseVNNI


def quantized_matmul(n: int, m: int, k: int) -> sl.Workload:
    """Return C = A @ B in int32 of uint8 activations and int8 weights."""
    a = te.placeholder((n, k), "uint8", "A")
    b = te.placeholder((k, m), "int8", "B")
    r = te.reduce_axis((0, k), "k")
    c = te.compute(
        (n, m), lambda i, j: te.sum(a[i, r].astype("int32") * b[r, j].astype("int32"), [r]), "C"
    )
    return sl.workloads.from_te([a, b, c], "quantized_matmul")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--trials", type=int, default=64, help="candidates for each kernel")
    arguments = parser.parse_args()
    if "avx512vnni" not in host_features():
        raise SystemExit("This CPU has no AVX-512 VNNI.")
    sizes = (arguments.size,) * 3
    space = sl.default_space("cpu") + UseVNNI()
    quantized = sl.tune(quantized_matmul(*sizes), space=space, trials=arguments.trials)
    plain = sl.tune(sl.workloads.matmul(*sizes), trials=arguments.trials)
    print(quantized.best.trace.as_python())
    for name, result in (("float32", plain), ("uint8 x int8", quantized)):
        state = "verified" if result.best.record.verified else "NOT VERIFIED"
        print(f"{name}: {describe_latency(result.best.latency, result.workload.flops)}, {state}")
    print(f"{plain.best.latency / quantized.best.latency:.2f}x faster than float32")


if __name__ == "__main__":
    main()
