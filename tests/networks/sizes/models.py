"""One small model at several sizes, as Relax modules: torch is not needed."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax

import schedlang as sl

WIDTH = 24


def dense(batch: int, dtype: str = "float32", width: int = WIDTH, name: str = "x") -> tvm.IRModule:
    """Two dense layers and a softmax."""
    rng = np.random.default_rng(0)
    builder = relax.BlockBuilder()
    x = relax.Var(name, relax.TensorType((batch, width), dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for _ in range(2):
                weight = relax.const(rng.standard_normal((width, width)).astype(dtype), dtype)
                value = builder.emit(relax.op.nn.relu(relax.op.matmul(value, weight)))
            output = builder.emit_output(relax.op.nn.softmax(value))
        builder.emit_func_output(output)
    return builder.get()


def imported(*batches: int) -> list[sl.Network]:
    return [sl.import_network(dense(batch), name="dense") for batch in batches]


def network_set(*batches: int, weights: list[float] | None = None) -> sl.NetworkSet:
    return sl.NetworkSet(imported(*batches), weights=weights)


def inputs(batch: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((batch, WIDTH)).astype("float32")
