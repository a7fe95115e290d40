"""Four shapes of each operator, most from MetaSchedule's test-suite; the first is from A.2."""

from __future__ import annotations

from schedlang.workloads.operators.registry import factory
from schedlang.workloads.workload import Workload

# Positional parameters, in each factory's own order; every other parameter keeps its default.
_SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {
    "C1D": (
        (256, 64, 128, 3, 2, 1),
        (128, 128, 256, 1, 2, 0),
        (64, 256, 256, 5, 1, 2),
        (32, 512, 512, 3, 1, 1),
    ),
    "C2D": (
        (224, 224, 3, 64, 7, 2, 3),
        (56, 56, 64, 64, 1, 1, 0),
        (14, 14, 256, 256, 3, 1, 1),
        (7, 7, 512, 512, 3, 1, 1),
    ),
    "C3D": (
        (16, 224, 224, 3, 64, 7, 2, 3),
        (16, 56, 56, 64, 64, 1, 1, 0),
        (16, 14, 14, 256, 256, 3, 1, 1),
        (16, 7, 7, 512, 512, 3, 1, 1),
    ),
    "DEP": (
        (112, 112, 32, 3, 1, 1),
        (112, 112, 64, 3, 2, 1),
        (14, 14, 512, 3, 2, 1),
        (7, 7, 1024, 3, 1, 1),
    ),
    "DIL": (
        (224, 224, 3, 64, 7, 2, 3, 2),
        (56, 56, 64, 64, 1, 1, 0, 2),
        (14, 14, 256, 256, 3, 1, 1, 2),
        (7, 7, 512, 512, 3, 1, 1, 2),
    ),
    "GMM": ((128, 128, 128), (512, 32, 512), (512, 512, 512), (1024, 1024, 1024)),
    "GRP": (
        (56, 56, 64, 128, 3, 2, 1, 4),
        (56, 56, 64, 64, 1, 1, 0, 4),
        (14, 14, 256, 256, 3, 1, 1, 4),
        (7, 7, 512, 512, 3, 1, 1, 4),
    ),
    "T2D": (
        (4, 4, 512, 256, 4, 2, 1),
        (8, 8, 256, 128, 4, 2, 1),
        (16, 16, 128, 64, 4, 2, 1),
        (32, 32, 64, 3, 4, 2, 1),
    ),
    "CAP": (
        (16, 16, 32, 32, 3, 2, 1),
        (8, 8, 32, 32, 3, 1, 1),
        (16, 16, 8, 16, 3, 2, 1),
        (8, 8, 16, 16, 3, 1, 1),
    ),
    "NRM": ((256, 256), (512, 512), (1024, 1024), (4096, 1024)),
    "SFM": ((256, 256), (512, 512), (1024, 1024), (2048, 2048)),
    "CBR": (
        (224, 224, 3, 64, 7, 2, 3),
        (56, 56, 64, 128, 3, 2, 1),
        (28, 28, 128, 256, 1, 2, 0),
        (7, 7, 512, 512, 3, 1, 1),
    ),
    "TBG": ((128, 12, 64), (128, 16, 64), (64, 12, 128), (128, 12, 128)),
    # A layer of a language model with a weight of 4096 x 4096 or 11008 x 4096, for 1 to 32 tokens.
    "quantized_matmul": (
        (1, 4096, 4096),
        (8, 4096, 4096),
        (1, 11008, 4096),
        (32, 11008, 4096),
    ),
    "matmul": ((128, 128, 128), (512, 32, 512), (512, 512, 512), (1024, 1024, 1024)),
}


def standard(name: str) -> tuple[Workload, ...]:
    """Return the four standard shapes of an operator, the paper's (A.2) first; float32, batch 1."""
    make = factory(name)
    return tuple(make(*shape) for shape in _SHAPES[make.__name__])
