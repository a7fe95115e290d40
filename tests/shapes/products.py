"""A dense layer that is tuned for many shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import schedlang as sl

TARGET = sl.Target("cpu", cores=2)
SHAPES: Any = [{"rows": (1, 60), "width": 48}, {"rows": 5, "width": 31}, {"rows": 7, "width": 31}]


def dense(rows: int, width: int) -> Any:
    """``rows`` by 32 times 32 by ``width``."""
    return sl.workloads.matmul(rows, width, 32)


def tuned(file: Path | None, shapes: Any, **given: Any) -> sl.ShapeSet:
    """Tune with few trials."""
    settings: dict[str, Any] = {"trials": 6, "exact": 3, "progress": False, "finals": 0}
    return sl.tune_shapes(dense, shapes, TARGET, database=file, **settings | given)


def check(found: Any, rows: int, width: int, extents: dict[str, int] | None = None) -> None:
    """Compare with numpy's product."""
    rng = np.random.default_rng(rows)
    a = rng.standard_normal((rows, 32), dtype="float32")
    b = rng.standard_normal((32, width), dtype="float32")
    out = np.full((rows, width), np.nan, "float32")
    found(a, b, out, **(extents or {}))
    np.testing.assert_allclose(out, a @ b, rtol=1e-4, atol=1e-4)
