"""Batch normalisation is folded where that is right, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import schedlang as sl

models = pytest.importorskip(
    "tests.networks.models", reason="needs torch: pip install 'schedlang[torch]'"
)

nn, functional = models.nn, models.functional
Function, image, seeded = models.Function, models.image, models.seeded


def network(function: Callable[..., Any]) -> sl.Network:
    parts = {"conv": nn.Conv2d(3, 3, 3, padding=1), "one": nn.BatchNorm2d(3)}
    model = Function(function, **parts, other=nn.BatchNorm2d(3, affine=False))
    found = sl.import_network(seeded(model), (image(1, 3, 5, 5),))
    errors = found.verify()
    assert errors.passed, str(errors)
    return found


def functions(found: sl.Network) -> list[str]:
    return [call.function for call in found.calls]


def test_two_in_a_row_and_an_activation_are_one_function() -> None:
    found = network(lambda self, x: functional.relu(self.other(self.one(self.conv(x)))))
    assert functions(found) == ["fused_conv2d_add_relu", "transpose"]
    assert list(found.parameters) == ["conv.weight (folded)", "conv.weight bias (folded)"]


def test_a_convolution_without_a_bias_gets_one() -> None:
    found = network(lambda self, x: self.one(functional.conv2d(x, self.conv.weight)))
    assert functions(found) == ["fused_conv2d_add", "transpose"]


def test_what_something_else_reads_is_not_scaled() -> None:
    def forward(self: Any, x: Any) -> Any:
        read = [self.conv(x + number) for number in range(4)]
        bias = self.other.running_mean.view(1, 3, 1, 1)
        return (
            self.one(read[0]) + read[0],
            *(self.one(read[1]), read[1]),
            *(self.one(read[2]), self.other(read[2])),
            self.one(read[3]) * read[3],
            self.one(functional.conv2d(x, self.conv.weight) + bias) * bias,
            self.one(functional.conv2d(x, self.conv.weight, padding=1) + x),
            self.other(self.conv(self.one(self.conv(x)))),
        )

    network(forward)


def test_without_a_convolution_it_is_a_product_and_a_sum() -> None:
    found = network(lambda self, x: self.one(functional.relu(x)))
    assert functions(found) == ["fused_relu_multiply_add"]


def test_weights_that_are_inputs_stay() -> None:
    model = Function(lambda self, x, w: self.one(functional.conv2d(x, w)), one=nn.BatchNorm2d(3))
    found = sl.import_network(seeded(model), (image(1, 3, 5, 5), image(3, 3, 3, 3)))
    assert found.verify().passed
