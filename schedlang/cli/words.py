"""Words that the shell completes: names of operators, searches and targets, and files.

They are written here because the library's own tables need TVM, which takes seconds to import; a
test compares them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

OPERATORS = (
    "matmul",
    "batch_matmul",
    "capsule_conv2d",
    "conv1d",
    "conv2d",
    "conv2d_bn_relu",
    "conv2d_transpose",
    "conv3d",
    "depthwise_conv2d",
    "dilated_conv2d",
    "group_conv2d",
    "norm",
    "softmax",
    "transpose_batch_matmul",
)
SEARCHES = (
    "auto",
    "coordinate_descent",
    "evolutionary",
    "explore_exploit",
    "grid",
    "random",
    "tree_search",
)
TARGETS = ("cpu", "cuda", "x86/avx2", "x86/avx512", "aarch64/neon", "nvidia/a100", "nvidia/h100")
SCHEDULERS = ("gradient", "round_robin", "equal_split")
SCRIPT = ".tvmscript"
"""How files of TVMScript text end."""

_PROGRAMS = (".py", SCRIPT, ".onnx")


def complete_program(incomplete: str) -> Iterator[str]:
    """Give operators and files of programs that begin like this."""
    yield from _beginning(incomplete, OPERATORS)
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


def complete_search(incomplete: str) -> Iterator[str]:
    """Give names of searches that begin like this."""
    return _beginning(incomplete, SEARCHES)


def complete_target(incomplete: str) -> Iterator[str]:
    """Give names of targets that begin like this."""
    return _beginning(incomplete, TARGETS)


def complete_scheduler(incomplete: str) -> Iterator[str]:
    """Give names of task schedulers that begin like this."""
    return _beginning(incomplete, SCHEDULERS)


def _beginning(incomplete: str, words: tuple[str, ...]) -> Iterator[str]:
    return (word for word in words if word.startswith(incomplete))
