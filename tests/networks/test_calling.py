"""How a network is called: nested arguments and results, fixed values, modes and dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl

models = pytest.importorskip(
    "tests.networks.models", reason="needs torch: pip install 'schedlang[torch]'"
)

torch, nn = models.torch, models.nn
Function, image = models.Function, models.image


class Nested(nn.Module):
    """Nested arguments and results; an unused layer, a buffer and a single number as weights."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("offset", torch.arange(4.0))
        self.unused = nn.Linear(3, 3)
        self.scale = nn.Parameter(torch.tensor(2.5))

    def forward(self, first: Any, pair: Any, times: int = 1) -> Any:
        one, two = pair
        total = first["x"] + one * self.offset
        return {"sum": total * times, "pair": [two * self.scale, first["x"]], "none": None}


def tensors() -> tuple[Any, Any]:
    return {"x": image(3, 4)}, (image(3, 4) + 1, image(3, 4) + 2)


def test_nested_arguments_and_results() -> None:
    first, pair = tensors()
    network = sl.import_network(Nested(), (first, pair, 7))
    result = network.run(first, pair, 7)
    expected = Nested()(first, pair, 7)
    assert list(result) == ["sum", "pair", "none"]
    assert result["none"] is None
    np.testing.assert_allclose(result["sum"], expected["sum"])
    np.testing.assert_allclose(result["pair"][0], expected["pair"][0].detach())
    np.testing.assert_array_equal(result["pair"][1], first["x"])
    names = [output.name for output in network.outputs]
    assert names == ["output['sum']", "output['pair'][0]", "output['pair'][1]"]
    assert list(network.parameters) == ["offset"], "a number is a constant, and no layer is unused"
    assert network.verify().passed


def test_keyword_arguments_in_any_order() -> None:
    first, pair = tensors()
    network = sl.import_network(Nested(), {"pair": pair, "first": first})
    assert network.verify(first=first, pair=pair).passed


def test_other_arguments_are_refused() -> None:
    first, pair = tensors()
    network = sl.import_network(Nested(), (first, pair, 7))
    with pytest.raises(sl.NetworkError, match=r"argument 3 was 7 .* cannot be 8"):
        network.run(first, pair, 8)
    with pytest.raises(sl.NetworkError, match="another structure"):
        network.run(first, pair[0], 7)
    with pytest.raises(sl.NetworkError, match=r"expected shape \(3, 4\) of float32, got \(2, 4\)"):
        network.run({"x": image(2, 4)}, pair, 7)
    with pytest.raises(sl.NetworkError, match="got .* of float64"):
        network.run({"x": np.ones((3, 4))}, pair, 7)


def test_arguments_of_numpy_and_inputs_that_are_not_contiguous() -> None:
    model = Function(lambda self, x: x.reshape(-1) * 2)
    strided = np.arange(24, dtype=np.float32).reshape(4, 3, 2).transpose(2, 1, 0)
    network = sl.import_network(model, (strided,))
    np.testing.assert_array_equal(network.run(strided), strided.reshape(-1) * 2)
    np.testing.assert_array_equal(network.run(torch.from_numpy(strided)), strided.reshape(-1) * 2)


def test_an_input_returned_unchanged_and_twice() -> None:
    network = sl.import_network(Function(lambda self, x: (x, x + 1, x)), (image(2),))
    one, _, two = network.run(image(2))
    np.testing.assert_array_equal(one, image(2))
    np.testing.assert_array_equal(two, image(2))


def test_an_input_of_no_axes() -> None:
    network = sl.import_network(Function(lambda self, x, y: x * y), (image(3), torch.tensor(2.5)))
    np.testing.assert_allclose(network.run(image(3), 2.5), image(3) * 2.5)


def test_a_model_in_training_is_imported_for_evaluation_and_left_as_it_is() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.9), nn.BatchNorm1d(4))
    model[0].eval()
    network = sl.import_network(model, (image(3, 4),))
    assert network.verify().passed
    assert [part.training for part in model.modules()] == [True, False, True, True]


def test_weights_are_copied() -> None:
    model = nn.Linear(4, 2)
    network = sl.import_network(model, (image(3, 4),))
    before = network.run(image(3, 4))
    with torch.no_grad():
        model.weight.zero_()
        model.bias.zero_()
    np.testing.assert_array_equal(network.run(image(3, 4)), before)
    assert not network.verify().passed, "it is not the model any more"


def test_an_exported_program_has_its_own_examples() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)).eval()
    program = torch.export.export(model, (image(1, 1, 4, 4),))
    for given in (program, program.run_decompositions()):
        network = sl.import_network(given)
        assert network.verify().passed
        names = [call.function for call in network.calls]
        assert names == ["reshape", "fused_conv2d_add", "transpose"]
