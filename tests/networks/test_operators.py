"""Operators of torch with odd arguments, element types and numbers.

``benchmarks/torch_operators.py`` tries the whole catalogue.
"""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

import schedlang as sl
from schedlang.targets import build_callable

pytestmark = pytest.mark.slow

models = pytest.importorskip(
    "tests.networks.models", reason="needs torch: pip install 'schedlang[torch]'"
)
judging = pytest.importorskip("tests.networks.operators.judging")
catalogue = pytest.importorskip("tests.networks.operators.catalogue")

torch, functional = models.torch, models.functional
Function, image = models.Function, models.image

ALWAYS = (
    *("relu of special float32", "clamp crossed of special int64", "maximum of special float32"),
    *("max -1 of NaN first", "argmax of NaN last", "argmin -1 of NaN first", "amax of infinite"),
    *("sort stable of spoilt float32", "topk of NaN first", "median -1 of NaN first"),
    *("max_pool2d padded of spoilt", "fold of unfold of two batches", "index pair of float32"),
    *("adaptive_avg_pool2d uneven of two batches", "isfinite of special float32"),
    *("logaddexp of special float32", "add of booleans", "ne of special float32"),
    *("equals itself of special float32", "times 0 of special float32", "all of empty"),
    *("div floor of special float32", "remainder number of special float64", "cumprod of int8"),
    *("shift right by each distance of special int8", "shifts by name of special uint8"),
    *("exp of special int64", "mean of empty", "sort of int8", "index_put accumulate of float32"),
)
"""What was wrong once, or ended the import with an error of TVM's."""


def sample(count: int = 60) -> list[judging.Case]:
    """Return the cases that are always tried, and a few of each family."""
    drawn = random.Random(35)
    cases = {case.name: case for family in catalogue.FAMILIES.values() for case in family}
    chosen = {name: cases[name] for name in ALWAYS}
    for family in catalogue.FAMILIES.values():
        for case in drawn.sample(family, count // len(catalogue.FAMILIES)):
            chosen[case.name] = case
    return list(chosen.values())


def test_it_computes_what_torch_computes_or_refuses_it() -> None:
    verdicts = {verdict.case.name: verdict for verdict in judging.judge(sample())}
    failed = [f"{name}: {found.message}" for name, found in verdicts.items() if found.failed]
    assert not failed, "\n".join(failed)
    assert all(verdicts[name].outcome == judging.EQUAL for name in ALWAYS)
    refused = [found.message for found in verdicts.values() if found.outcome == judging.REFUSED]
    assert refused, "an operator that cannot be imported is among them"
    for message in refused:
        assert "in module 'case_" in message and "judging.py:" in message, "its line"


def test_the_catalogue_names_each_case_once() -> None:
    names = [case.name for family in catalogue.FAMILIES.values() for case in family]
    assert len(names) == len(set(names)) > 2500


def test_a_wrong_result_is_found() -> None:
    (case,) = (one for one in catalogue.FAMILIES["element-wise"] if one.name == "relu of 0-d")
    right = [case.function(*case.inputs).numpy()]
    assert judging.difference(case, right, right) == ""
    assert "1 wrong" in judging.difference(case, [right[0] + 1e-3], right)
    assert "float64" in judging.difference(case, [right[0].astype(np.float64)], right)
    case = replace(case, signed_zeros=True)
    zero, negative = [np.zeros((), np.float32)], [np.array(-0.0, np.float32)]
    assert "1 wrong" in judging.difference(case, zero, negative)


def test_scheduled_programs_keep_nan_too() -> None:
    """Vectors and reductions in parts, as the default schedules have them."""

    def forward(self: Function, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        made = torch.relu(self.conv(x))
        return (
            *(made, functional.max_pool2d(made, 3, 2, 1), torch.maximum(x, x.flip(-1))),
            *(x.amax(-1), x.amin(1), x.amax(), x.argmax(-1), x.clamp(-1, 1)),
        )

    model = Function(forward, conv=models.nn.Conv2d(8, 8, 3, padding=1))
    x = image(1, 8, 18, 64)
    x[0, 0, 3, 5], x[0, 2, 0, 0], x[0, 5, 17, 63] = (torch.nan, torch.inf, -torch.inf)
    x[0, 3, 2] = -torch.inf
    with torch.no_grad():
        expected = model(x)
    found = sl.compile_network(sl.import_network(model, (x,)))(x.numpy())
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other.numpy(), rtol=1e-4, atol=1e-4)


def test_powers_are_products() -> None:
    network = sl.import_network(Function(lambda self, x: x**13), (image(2, 4),))
    assert "T.pow" not in network.mod.script()


def test_an_index_that_is_too_large() -> None:
    """A network refuses it, as torch does; a workload, which checks nothing, stays inside."""
    table, far = torch.arange(15.0).reshape(5, 3), torch.tensor([10**6])
    take = Function(lambda self, table, places: functional.embedding(places, table))
    network = sl.import_network(take, (table, torch.tensor([1])))
    with pytest.raises(sl.ValueOutOfRangeError, match="has to be from 0 to 4"):
        network.run(table, far)
    found = torch.empty(1, 3)
    build_callable(network.as_workload().mod, sl.Target("cpu"))(
        table.numpy(), far.numpy(), found.numpy()
    )
    assert (found == table[-1:]).all()
