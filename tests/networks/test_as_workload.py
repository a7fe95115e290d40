"""A small network as one workload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch.nn import functional as F  # noqa: E402

from tests.networks.models import Function, image  # noqa: E402

CASES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "rms_norm": (lambda x, w: F.rms_norm(x, (8,), w, eps=1e-6), [(1, 4, 8), (8,)]),
    "scores": (lambda q, k: torch.matmul(q, k.transpose(-1, -2)), [(2, 4, 8), (2, 4, 8)]),
    "attention": (
        lambda q, k, v, mask: F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, enable_gqa=True
        ),
        [(1, 4, 6, 8), (1, 2, 6, 8), (1, 2, 6, 8), (6, 6)],
    ),
    "silu_mul_matmul": (lambda g, u, w: F.silu(g) * u @ w, [(4, 8), (4, 8), (8, 2)]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_it_computes_what_the_network_computes(name: str) -> None:
    function, shapes = CASES[name]
    inputs = tuple(image(*shape) for shape in shapes)
    network = sl.import_network(
        Function(lambda _, *given: function(*given)), inputs, name=name, layout="as_is"
    )
    assert len(network.calls) > 1
    workload = network.as_workload()
    assert workload.name == name
    assert [one.role for one in workload.args] == ["input"] * len(inputs) + ["output"]
    wanted = function(*inputs).numpy()
    output = np.zeros(wanted.shape, np.float32)
    sl.Target("cpu").build(workload.mod)(*(one.numpy() for one in inputs), output)
    np.testing.assert_allclose(output, wanted, rtol=1e-4, atol=1e-5)


def test_what_is_no_workload_is_refused() -> None:
    x = image(4, 4)
    weights = sl.import_network(torch.nn.Linear(4, 2), (x,), name="linear")
    with pytest.raises(sl.NetworkError, match="linear holds .*make them inputs"):
        weights.as_workload()
    two = sl.import_network(Function(lambda _, x: (x + 1, x * 2)), (x,), name="two")
    with pytest.raises(sl.NetworkError, match="two returns 2 tensors"):
        two.as_workload()
