"""The rows: each takes a ``Bench`` and returns its figures, with latencies in seconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import schedlang as sl
from gpu_rows.bench import Bench, ratio
from gpu_rows.torch_peer import TorchPeer
from gpu_rows.workloads import fused_dense, layer_norm

_GIB, _SIZE = 1 << 30, 64 << 20
_PEAK_EXTENT = 8192
# MetaSchedule's appendix A.2, and CAP of TVM's test suite; matmul is GMM without a batch.
STANDARD = tuple(name for name in sl.workloads.names() if name.isupper())


def peaks(bench: Bench) -> dict[str, Any]:
    """Copy bandwidth and the peak of the matrix units, through torch."""
    torch = bench.torch
    if torch is None:
        return {}
    n = _PEAK_EXTENT
    figures: dict[str, Any] = {"copy bytes/s": torch.copy_rate(_GIB), "torch": torch.versions()}
    for dtype in ("float16", "bfloat16"):
        one, other = (torch.random(n, n, dtype=dtype) for _ in range(2))
        seconds = torch.seconds(lambda one=one, other=other: one @ other)
        figures[f"{dtype} flops"] = 2 * n**3 / seconds
    return figures


def gemm(bench: Bench, extent: int) -> dict[str, Any]:
    """A product of float16 matrices summed in float32, against cuBLAS and MetaSchedule.

    Both searches write float32; cuBLAS, through torch, writes float16.
    """
    workload = sl.workloads.matmul(extent, extent, extent, dtype="float16", out_dtype="float32")
    space = sl.default_space(bench.target) + sl.modules.UseTensorCore()
    figures = bench.against_metaschedule(workload, space)

    latency = {**figures["latency"], "cublas": _cublas(bench, extent)}
    return {
        **figures,
        "latency": latency,
        "flops": _rates(latency, extent),
        "cublas over schedlang": ratio(latency["cublas"], latency["schedlang"]),
    }


def wgmma(bench: Bench, extent: int = 4096) -> dict[str, Any]:
    """The product of ``gemm`` with wgmma, which needs sm_90a, against mma.sync and cuBLAS."""
    if bench.target.arch != "sm_90a":
        return {"left out": f"only sm_90a has wgmma, and the target is {bench.target.arch}"}
    workload = sl.workloads.matmul(extent, extent, extent, dtype="float16", out_dtype="float32")
    generic = sl.default_space(bench.target)
    spaces = {
        "wgmma": generic + sl.modules.UseWGMMA(arch=bench.target.arch),
        "mma.sync": generic + sl.modules.UseTensorCore(via=["mma"]),
    }
    times, searches = _compare(bench, workload, spaces)
    latency = {**times, "cublas": _cublas(bench, extent)}
    return {
        "latency": latency,
        "flops": _rates(latency, extent),
        "mma.sync over wgmma": ratio(latency["mma.sync"], latency["wgmma"]),
        "cublas over wgmma": ratio(latency["cublas"], latency["wgmma"]),
        "searches": searches,
    }


def _cublas(bench: Bench, extent: int) -> float | None:
    def product(torch: TorchPeer) -> Callable[[], Any]:
        one, other = torch.random(extent, extent), torch.random(extent, extent)
        return lambda: one @ other

    return bench.torch_seconds(product)


def _rates(latency: dict[str, float | None], extent: int) -> dict[str, float]:
    """Return the operations a second of a product, of those that have a latency."""
    return {name: 2 * extent**3 / seconds for name, seconds in latency.items() if seconds}


def _compare(
    bench: Bench, workload: sl.Workload, spaces: dict[str, sl.Space]
) -> tuple[dict[str, float | None], dict[str, Any]]:
    """Tune in each space at as many trials; return latencies, timed in turn, and the searches."""
    programs: dict[str, list[Any]] = {}
    found: dict[str, Any] = {}
    with bench.measuring(workload) as measurer:
        for number, (name, space) in enumerate(spaces.items()):
            measurer.best_so_far = None
            tuned = bench.tune(workload, measurer, space, 0.9 / (len(spaces) - number + 0.2))
            programs[name] = [] if tuned.program is None else [tuned.program]
            found[name] = tuned.figures()
        return bench.finals(measurer, programs), found


def ablation(bench: Bench) -> dict[str, Any]:
    """Figure 10a of MetaSchedule's paper on fused-dense: modules added one by one."""
    workload = fused_dense(2048, 1024, 4096)
    generic = sl.default_space(bench.target)
    spaces = {
        "generic": generic,
        "+ tensor core": generic + sl.modules.UseTensorCore(depths=(1,)),
        "+ pipeline": generic + sl.modules.UseTensorCore(),
    }
    times, found = _compare(bench, workload, spaces)

    def dense(torch: TorchPeer) -> Callable[[], Any]:
        x, weight = torch.random(2048, 1024), torch.random(1024, 4096)
        bias, gelu = torch.random(4096), torch.torch.nn.functional.gelu
        return lambda: gelu(torch.torch.addmm(bias, x, weight))

    return {"latency": {**times, "torch": bench.torch_seconds(dense)}, "searches": found}


def memory_bound(bench: Bench) -> dict[str, Any]:
    """Softmax and layer normalisation of 64 MB, against the rate of a copy of as much."""
    copy = None if bench.torch is None else bench.torch.copy_rate(_SIZE)
    rows, columns = _SIZE // 4 // 1024, 1024
    workloads = {
        "softmax": sl.workloads.softmax(rows, columns),
        "layer norm": layer_norm(rows, columns),
    }
    figures: dict[str, Any] = {"copy bytes/s": copy}
    for number, (name, workload) in enumerate(workloads.items()):
        with bench.measuring(workload) as measurer:
            tuned = bench.tune(workload, measurer, part=0.9 / (len(workloads) - number))
        rate = 2 * _SIZE / tuned.latency if tuned.latency else None
        figures[name] = {
            **tuned.figures(),
            "bytes/s": rate,
            "of the copy's": ratio(rate, copy),
        }
    return figures


def standard(bench: Bench, name: str) -> dict[str, Any]:
    """A workload of the paper's appendix A.2 in float32, against MetaSchedule."""
    return bench.against_metaschedule(sl.workloads.get(name))


def convolution(bench: Bench) -> dict[str, Any]:
    """A 3x3 convolution of ResNet-50, 32 images in float16, against cuDNN.

    It is summed in float32 and written so; cuDNN, through torch, writes float16.
    """
    batch, extent, channels = 32, 28, 128
    workload = sl.workloads.conv2d(
        extent, extent, channels, channels, 3, 1, 1,
        batch=batch, dtype="float16", out_dtype="float32",
    )  # fmt: skip
    space = sl.default_space(bench.target) + sl.modules.UseTensorCore()
    with bench.measuring(workload) as measurer:
        tuned = bench.tune(workload, measurer, space, 0.9)

    def convolve(torch: TorchPeer) -> Callable[[], Any]:
        last = torch.torch.channels_last
        images = torch.random(batch, channels, extent, extent).to(memory_format=last)
        weight = torch.random(channels, channels, 3, 3).to(memory_format=last)
        return lambda: torch.torch.nn.functional.conv2d(images, weight, padding=1)

    cudnn = bench.torch_seconds(convolve)
    return {
        **tuned.figures(),
        "cudnn": cudnn,
        "cudnn over schedlang": ratio(cudnn, tuned.latency),
    }


ROWS: dict[str, Callable[[Bench], dict[str, Any]]] = {
    "peaks": peaks,
    "gemm-1024": lambda bench: gemm(bench, 1024),
    "gemm-4096": lambda bench: gemm(bench, 4096),
    "wgmma": wgmma,
    "ablation": ablation,
    "memory": memory_bound,
    **{name: lambda bench, name=name: standard(bench, name) for name in STANDARD},
    "convolution": convolution,
}
"""The rows by name, in the order in which they run."""
