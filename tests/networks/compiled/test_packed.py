"""Weights packed ahead, in compiled networks."""

from __future__ import annotations

import numpy as np
from tvm import relax

import schedlang as sl


def test_a_packed_weight_has_another_type_than_the_weight_in_its_place() -> None:
    """``x @ W + b + x``: without W, the second argument is b, a vector."""
    rng = np.random.default_rng(0)
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((16, 64), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            weight = relax.const(rng.standard_normal((64, 64)).astype("float32"))
            bias = relax.const(rng.standard_normal(64).astype("float32"))
            product = builder.emit(relax.op.add(relax.op.matmul(x, weight), bias))
            output = builder.emit_output(relax.op.add(product, x))
        builder.emit_func_output(output)
    network = sl.import_network(builder.get(), name="residual")
    executable = sl.compile_network(network)
    assert [one.packed for one in executable.summary] == [1]
    assert executable.verify().passed
