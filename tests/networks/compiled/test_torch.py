"""Compiled networks of PyTorch models: its tensors in and out, nested results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl

models = pytest.importorskip(
    "tests.networks.models", reason="needs torch: pip install 'schedlang[torch]'"
)
torch, nn = models.torch, models.nn
image = models.image


class Nested(nn.Module):
    """A dictionary of results; one is the argument, and one is no tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, pair: Any, *, scale: Any) -> Any:
        one, two = pair
        return {"layer": self.layer(one) * scale, "rest": [two, None, one + two]}


def test_tensors_in_and_out() -> None:
    model = nn.Sequential(nn.Linear(8, 6), nn.ReLU())
    exe = sl.compile_network(sl.import_network(model, (image(2, 8),)))
    x = image(2, 8)
    output = exe(x)
    assert isinstance(output, torch.Tensor)
    assert not output.requires_grad
    torch.testing.assert_close(output, model(x).detach())
    x.requires_grad_()
    torch.testing.assert_close(exe(x), output)
    strided = image(8, 2).t()
    torch.testing.assert_close(exe(strided), model(strided).detach())
    array = exe(x.detach().numpy())
    assert isinstance(array, np.ndarray)
    np.testing.assert_array_equal(array, output)
    output.add_(1)  # its own memory
    torch.testing.assert_close(exe(x), output - 1)


@pytest.mark.slow
def test_memory_is_shared_with_torch() -> None:
    model = nn.Linear(8, 6)
    exe = sl.compile_network(sl.import_network(model, (image(2, 8),)))
    x = image(2, 8)
    assert exe._borrowed([x])[0].data_ptr() == x.data_ptr()
    part = image(3, 8)[1:]
    assert exe._borrowed([part])[0].data_ptr() == part.data_ptr()


def test_nested_results() -> None:
    model = Nested()
    one, two, scale = image(2, 4), image(2, 4) + 1, torch.tensor(0.5)
    exe = sl.compile_network(sl.import_network(model, {"pair": (one, two), "scale": scale}))
    found = exe(pair=(one, two), scale=scale)
    expected = model((one, two), scale=scale)
    assert list(found) == ["layer", "rest"]
    torch.testing.assert_close(found["layer"], expected["layer"].detach())
    assert found["rest"][1] is None
    torch.testing.assert_close(found["rest"][0], two)
    assert found["rest"][0].data_ptr() != two.data_ptr()
    torch.testing.assert_close(found["rest"][2], one + two)
    assert exe.verify().passed


def test_other_element_types() -> None:
    def compute(self: Any, x: Any, places: Any, keep: Any) -> Any:
        return x[places] * 2, places + 1, torch.logical_not(keep)

    x = image(4, 2, dtype=torch.bfloat16)
    places, keep = torch.tensor([3, 1]), torch.tensor([True, False])
    network = sl.import_network(models.Function(compute), (x, places, keep))
    outputs = sl.compile_network(network)(x, places, keep)
    for output, expected in zip(outputs, compute(None, x, places, keep), strict=True):
        torch.testing.assert_close(output, expected)


def test_what_is_refused() -> None:
    exe = sl.compile_network(sl.import_network(nn.Linear(8, 6), (image(2, 8),)))
    with pytest.raises(sl.NetworkError, match=r"expected shape \(2, 8\) of float32, got \(3, 8\)"):
        exe(image(3, 8))
    with pytest.raises(sl.NetworkError, match="float64"):
        exe(image(2, 8).double())
    with pytest.raises(sl.NetworkError, match=r"is on meta, and the network runs on the CPU"):
        exe(image(2, 8).to("meta"))
