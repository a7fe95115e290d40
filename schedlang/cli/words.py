"""Words that the command line knows: operators with their sizes, names of searches and the like.

The shell completes them, and wrong ones are refused at once. They are written here because the
library's own tables need TVM, which takes seconds to import; a test compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple


class OperatorWord(NamedTuple):
    """An operator of ``schedlang.workloads``: its short name, and its sizes with their defaults."""

    short: str
    sizes: str


OPERATORS: Mapping[str, OperatorWord] = {
    "matmul": OperatorWord("matmul", "n=128 m=128 k=128 dtype=float32 out_dtype=None"),
    "batch_matmul": OperatorWord("GMM", "n=128 m=128 k=128 batch=1 dtype=float32 out_dtype=None"),
    "capsule_conv2d": OperatorWord(
        "CAP",
        "height=16 width=16 in_channels=32 out_channels=32 kernel_size=3 stride=2 padding=1 "
        "capsule_size=4 batch=1 dtype=float32 out_dtype=None",
    ),
    "conv1d": OperatorWord(
        "C1D",
        "length=256 in_channels=64 out_channels=128 kernel_size=3 stride=2 padding=1 batch=1 "
        "dtype=float32 out_dtype=None",
    ),
    "conv2d": OperatorWord(
        "C2D",
        "height=224 width=224 in_channels=3 out_channels=64 kernel_size=7 stride=2 padding=3 "
        "batch=1 dtype=float32 out_dtype=None",
    ),
    "conv2d_bn_relu": OperatorWord(
        "CBR",
        "height=224 width=224 in_channels=3 out_channels=64 kernel_size=7 stride=2 padding=3 "
        "batch=1 dtype=float32",
    ),
    "conv2d_transpose": OperatorWord(
        "T2D",
        "height=4 width=4 in_channels=512 out_channels=256 kernel_size=4 stride=2 padding=1 "
        "batch=1 dtype=float32 out_dtype=None",
    ),
    "conv3d": OperatorWord(
        "C3D",
        "depth=16 height=224 width=224 in_channels=3 out_channels=64 kernel_size=7 stride=2 "
        "padding=3 batch=1 dtype=float32 out_dtype=None",
    ),
    "depthwise_conv2d": OperatorWord(
        "DEP",
        "height=112 width=112 channels=32 kernel_size=3 stride=1 padding=1 batch=1 "
        "dtype=float32 out_dtype=None",
    ),
    "dilated_conv2d": OperatorWord(
        "DIL",
        "height=224 width=224 in_channels=3 out_channels=64 kernel_size=7 stride=2 padding=3 "
        "dilation=2 batch=1 dtype=float32 out_dtype=None",
    ),
    "group_conv2d": OperatorWord(
        "GRP",
        "height=56 width=56 in_channels=64 out_channels=128 kernel_size=3 stride=2 padding=1 "
        "groups=4 batch=1 dtype=float32 out_dtype=None",
    ),
    "norm": OperatorWord("NRM", "m=256 n=256 batch=1 dtype=float32"),
    "quantized_matmul": OperatorWord(
        "quantized_matmul",
        "n=1 m=1024 k=1024 bits=4 group=None zero_points=False dtype=float32 out_dtype=None",
    ),
    "softmax": OperatorWord("SFM", "m=256 n=256 dtype=float32"),
    "transpose_batch_matmul": OperatorWord(
        "TBG",
        "sequence=128 heads=12 dim=64 batch=1 dtype=float32 out_dtype=None",
    ),
}
"""Operators by their long names."""
SEARCHES = (
    "auto",
    "coordinate_descent",
    "dpansor-25",
    "dpansor-100",
    "dpansor-300",
    "evolutionary",
    "explore_exploit",
    "grid",
    "random",
    "tree_search",
)
TARGETS = (
    "cpu",
    "x86/avx2",
    "x86/avx512",
    "x86/avx512_vnni",
    "x86/avx512_bf16",
    "aarch64/neon",
    "aarch64/dotprod",
    "aarch64/sve",
    "cuda",
    "cuda/sm_70",
    "cuda/sm_75",
    "cuda/sm_80",
    "cuda/sm_86",
    "cuda/sm_87",
    "cuda/sm_89",
    "cuda/sm_90",
    "cuda/sm_100",
    "cuda/sm_103",
    "cuda/sm_120",
    "cuda/sm_121",
    "cuda/sm_90a",
    "cuda/sm_100a",
    "cuda/sm_120a",
    "cuda/sm_121a",
    "nvidia/v100",
    "nvidia/t4",
    "nvidia/a100",
    "nvidia/a100-80gb",
    "nvidia/a10",
    "nvidia/rtx-3090",
    "nvidia/orin",
    "nvidia/l4",
    "nvidia/l40s",
    "nvidia/rtx-4090",
    "nvidia/h100",
    "nvidia/h200",
    "nvidia/b200",
    "nvidia/rtx-5090",
    "nvidia/gb10",
)
SCHEDULERS = ("gradient", "round_robin", "equal_split")
OBJECTIVES = ("latency", "requirements", "speedup")
SCRIPT = ".tvmscript"
"""How files of TVMScript text end."""

_PROGRAMS = (".py", SCRIPT, ".onnx")


def complete_program(incomplete: str) -> Iterator[str]:
    """Give operators and files of programs that begin like this."""
    yield from completing(OPERATORS)(incomplete)
    folder, _, start = incomplete.rpartition("/")
    try:
        found = sorted(Path(folder or ("/" if incomplete.startswith("/") else ".")).iterdir())
    except OSError:
        return
    for path in found:
        if path.name.startswith(start) and not (path.name.startswith(".") and not start):
            name = f"{folder}/{path.name}" if "/" in incomplete else path.name
            if path.is_dir():
                yield f"{name}/"
            elif path.suffix in _PROGRAMS:
                yield name


def completing(words: Iterable[str]) -> Callable[[str], Iterator[str]]:
    """Return what gives those of some words that begin as the shell says."""

    def complete(incomplete: str) -> Iterator[str]:
        return (word for word in words if word.startswith(incomplete))

    return complete


def operator_called(name: str) -> OperatorWord | None:
    """Return the operator of a long or short name; None without one."""
    return OPERATORS.get(name) or next(
        (one for one in OPERATORS.values() if one.short == name), None
    )
