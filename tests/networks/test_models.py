"""Small models of many kinds: imported, they compute what torch computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import schedlang as sl

models = pytest.importorskip(
    "tests.networks.models", reason="needs torch: pip install 'schedlang[torch]'"
)

torch, functional = models.torch, models.functional
MODELS, seeded = models.MODELS, models.seeded


@pytest.mark.parametrize("build", MODELS.values(), ids=MODELS.keys())
def test_a_network_computes_what_the_model_does(build: Callable[[], Any]) -> None:
    model, examples = build()
    network = sl.import_network(seeded(model), examples)
    found = network.verify(*examples)
    assert found.passed, str(found)
    assert not network.untunable
    assert sum(task.weight for task in network.tasks) == len(network.calls)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("convolutions_1d", "float64"), ("perceptron", "float16"), ("perceptron", "bfloat16")],
)
def test_other_element_types(name: str, dtype: str) -> None:
    model, examples = MODELS[name]()
    wanted = getattr(torch, dtype)
    model, examples = seeded(model).to(wanted), tuple(value.to(wanted) for value in examples)
    network = sl.import_network(model, examples)
    assert {tensor.dtype for tensor in (*network.inputs, *network.outputs)} == {dtype}
    found = network.verify()
    assert found.passed, str(found)


def test_attention_has_no_detour() -> None:
    """Two products, a softmax and what surrounds them, and no operator of torch's safe softmax."""
    model, examples = MODELS["masked_attention"]()
    names = [call.function for call in sl.import_network(model, examples).calls]
    assert sum("softmax" in name for name in names) == 3
    assert not any("equal" in name or "any" in name or "logical" in name for name in names)


def test_a_dense_layer_on_views_is_fused_with_what_follows() -> None:
    """As GPT-2 writes its layers: a view of two axes, ``addmm``, a view back, GELU."""

    def forward(self: Any, x: Any) -> Any:
        made = torch.addmm(self.bias, x.view(-1, 8), self.weight).view(1, 4, 6)
        return functional.gelu(made)

    model = models.Function(forward)
    model.weight = torch.nn.Parameter(models.image(8, 6))
    model.bias = torch.nn.Parameter(models.image(6))
    network = sl.import_network(model, (models.image(1, 4, 8),))
    assert [call.function for call in network.calls] == ["fused_matmul_add_gelu"]
    assert network.verify().passed
