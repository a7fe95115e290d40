"""Operators of torch with the arguments that TVM's front end ignores or reads wrongly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import schedlang as sl

models = pytest.importorskip(
    "tests.networks.models", reason="needs torch: pip install 'schedlang[torch]'"
)

torch, functional = models.torch, models.functional
Function, image = models.Function, models.image

X = image(2, 4, 4)
IDS = torch.tensor([-1, 2])
COUNTS = torch.tensor([1, 4, 7])

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "alpha": (
        lambda self, x: (
            torch.add(x, x * 2, alpha=3),
            torch.sub(x, 1, alpha=2),
            torch.rsub(x, x * x, alpha=2),
            torch.addmm(x[0], x[0], x[1], beta=0.5, alpha=2),
        ),
        (X,),
    ),
    "powers": (
        lambda self, x: (
            tuple(x**n for n in (2, 3, 7, -1, -2, 0, 1))
            + (x.abs() ** 0.5, x.abs() ** -0.5, x.abs() ** 1.7, 2**x)
        ),
        (X,),
    ),
    "integers": (
        lambda self, i: (
            *(i / 2, i * 0.5, i // -2, i + 0.5, i % 3, i.sqrt(), i == 2, i.cumsum(0)),
            torch.where(i > 2, i, 0.5),
            (i > 2).cumsum(0),
            (i > 2).sum(),
        ),
        (COUNTS,),
    ),
    "mixed types": (
        lambda self, x, h: (x + h, x * h, x > h, torch.cat([x, h]), torch.where(x > 0, x, h)),
        (X, X.double() * 3),
    ),
    "negative indices": (
        lambda self, x, i: (x[i], x[:, i], x[i, i], x[..., -1]),
        (image(4, 4, 3), IDS),
    ),
    "activations": (
        lambda self, x: (functional.selu(x), functional.celu(x, 2.0), functional.elu(x, 0.3)),
        (X,),
    ),
    "interpolation": (
        lambda self, x: (
            functional.interpolate(x, size=(9, 7), mode="nearest"),
            functional.interpolate(x, scale_factor=1.7, mode="nearest"),
            functional.interpolate(x, scale_factor=2, mode="nearest"),
            functional.interpolate(x, scale_factor=2, mode="bilinear"),
            functional.interpolate(x, size=(4, 5), mode="bilinear", align_corners=True),
            functional.interpolate(x, scale_factor=2, mode="bicubic"),
        ),
        (image(1, 2, 6, 6),),
    ),
    "statistics": (
        lambda self, x: (
            *(x.var(0, correction=0), x.std(-1), x.amax(1), x.amin((0, 1)), x.prod(-1)),
            *(*torch.var_mean(x, 1), *x.min(1), *x.max(1), x.norm(), x.logsumexp(1)),
        ),
        (X,),
    ),
    "constants": (
        lambda self, x: (torch.arange(6).float(), torch.ones(()), torch.zeros(2, 3), x + 1),
        (X,),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_it_computes_what_torch_computes(case: str) -> None:
    function, examples = CASES[case]
    network = sl.import_network(Function(function), examples)
    found = network.verify(*examples)
    assert found.passed, str(found)


def test_powers_are_products() -> None:
    network = sl.import_network(Function(lambda self, x: x**13), (X,))
    assert "T.pow" not in network.mod.script()


def test_an_index_that_is_too_large_stays_inside() -> None:
    """Torch refuses it; a compiled network must at least not read elsewhere."""
    network = sl.import_network(torch.nn.Embedding(5, 3), (torch.tensor([1]),))
    table = network.parameters["weight"]
    assert (network.run(torch.tensor([10**6])) == table[-1:]).all()
