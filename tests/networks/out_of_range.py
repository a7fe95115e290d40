"""Networks called with indices out of range and divisors of zero; what they do is printed as JSON.

A process of its own runs this: what is tested for is that it does not end.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import schedlang as sl

FAR = 10**11
ROWS = 300


def torch_cases() -> dict[str, tuple[Callable[..., Any], Sequence[Any], Sequence[Sequence[Any]]]]:
    """Return functions of torch with arguments for which they are right, and wrong ones."""
    import torch
    from torch.nn import functional

    x = torch.arange(ROWS * 4.0).reshape(ROWS, 4)

    def integers(*values: int) -> Any:
        return torch.tensor(values)

    def rows(*wrong: int) -> list[Any]:
        return [(x, integers(one, 0)) for one in wrong]

    def along(*wrong: int) -> list[Any]:
        return [(x, torch.full((1, 4), one)) for one in wrong]

    right, places = (x, integers(1, 2)), (x, integers(0, 1, 2, 3).reshape(1, 4))
    least = -(2**63)
    seven, three = integers(7, -8), integers(2, 3)
    by_zero, least_by_one = (seven, integers(0, 3)), (integers(least, 8), integers(-1, 3))
    pooled = torch.ones(1, 1, 2, 2)

    def unpooled(place: int) -> Any:
        return (pooled, torch.tensor([[[[0, 2], [8, place]]]]))

    return {
        "gather": (lambda x, i: x.gather(0, i), places, along(ROWS, FAR, -1)),
        "scatter": (lambda x, i: x.scatter(0, i, x[:1]), places, along(ROWS, FAR, -1)),
        "index_select": (lambda x, i: x.index_select(0, i), right, rows(ROWS, FAR, -1)),
        "[i]": (lambda x, i: x[i], right, rows(ROWS, FAR, -1, -ROWS - 1)),
        "[i, j]": (lambda x, i: x[i, i], right, rows(4, FAR, -1, -5)),
        "index_put": (lambda x, i: x.index_put((i,), x[:2]), right, rows(ROWS, FAR, -1)),
        "index_add": (lambda x, i: x.index_add(0, i, x[:2]), right, rows(ROWS, FAR, -1)),
        "index_copy": (lambda x, i: x.index_copy(0, i, x[:2]), right, rows(ROWS, FAR, -1)),
        "index_fill": (lambda x, i: x.index_fill(0, i, 2.0), right, rows(ROWS, FAR, -1)),
        "take": (lambda x, i: x.take(i), right, rows(4 * ROWS, FAR, -1)),
        "embedding": (lambda x, i: functional.embedding(i, x), right, rows(ROWS, FAR, -1)),
        "one_hot": (
            lambda i: functional.one_hot(i, 5),
            (integers(1, 2),),
            [(integers(one, 0),) for one in (5, FAR, -1)],
        ),
        "nll_loss": (
            lambda x, i: functional.nll_loss(x[:2], i),
            right,
            rows(4, FAR, -1),
        ),
        "max_unpool2d": (
            lambda x, i: functional.max_unpool2d(x, i, 2),
            unpooled(10),
            [unpooled(one) for one in (16, FAR, -1)],
        ),
        "binary_cross_entropy": (
            functional.binary_cross_entropy,
            (torch.full((4,), 0.25), torch.ones(4)),
            [(torch.full((4,), one), torch.ones(4)) for one in (1.5, -0.5, float("nan"))]
            + [(torch.full((4,), 0.25), torch.full((4,), 1.5))],
        ),
        "//": (lambda a, b: a // b, (seven, three), [by_zero, least_by_one]),
        "%": (lambda a, b: a % b, (seven, three), [by_zero, least_by_one]),
        "fmod": (torch.fmod, (seven, three), [by_zero, least_by_one]),
    }


def onnx_cases() -> dict[str, tuple[Any, Sequence[Any], Sequence[Sequence[Any]]]]:
    """Return models of ONNX with arguments for which they are right, and wrong ones."""
    from onnx import helper

    x = np.arange(ROWS * 4, dtype="float32").reshape(ROWS, 4)
    seven, three = np.array([7, -8]), np.array([2, 3])

    def model(operator: str, inputs: Sequence[Any], **attributes: Any) -> Any:
        kinds = [helper.np_dtype_to_tensor_dtype(one.dtype) for one in inputs]
        taken = [
            helper.make_tensor_value_info(f"in{k}", kind, one.shape)
            for k, (kind, one) in enumerate(zip(kinds, inputs, strict=True))
        ]
        names = [one.name for one in taken]
        node = helper.make_node(operator, names, ["out"], **attributes)
        result = helper.make_tensor_value_info("out", kinds[0], None)
        graph = helper.make_graph([node], "one", taken, [result])
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        made.ir_version = 8
        return made

    def case(operator: str, index: Any, *others: Any, **attributes: Any) -> Any:
        right = (x, index, *others)
        wrong = [(x, np.full_like(index, one), *others) for one in (ROWS, FAR, -ROWS - 1)]
        return model(operator, right, **attributes), right, wrong

    pair = np.array([[1, 2], [3, 3]])
    pairs = [(x, np.full_like(pair, one)) for one in (4, FAR, -5)]
    return {
        "Gather": case("Gather", np.array([1, -1]), axis=0),
        "GatherElements": case("GatherElements", np.array([[1], [-1]]), axis=0),
        "GatherND": case("GatherND", np.array([[1], [-1]])),
        "GatherND pairs": (model("GatherND", (x, pair)), (x, pair), pairs),
        "ScatterElements": case("ScatterElements", np.array([[1], [-1]]), x[:2, :1], axis=0),
        "ScatterND": case("ScatterND", np.array([[1], [-1]]), x[:2]),
        "Div": (model("Div", (seven, three)), (seven, three), [(seven, np.array([0, 3]))]),
        "Mod": (model("Mod", (seven, three)), (seven, three), [(seven, np.array([0, 3]))]),
    }


def outcome(function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """Return the values of a result as a list, or the name of the error."""
    try:
        return np.asarray(function(*arguments)).tolist()
    except Exception as error:  # what it is, is looked at
        return type(error).__name__


def main(kind: str) -> None:
    """Print for each case what the network and the model do, right arguments first."""
    warnings.simplefilter("ignore")
    found: dict[str, Any] = {}
    cases: Mapping[str, Any] = torch_cases() if kind == "torch" else onnx_cases()
    for name, (model, right, wrong) in cases.items():
        print(name, file=sys.stderr, flush=True)
        given: Any = model
        if kind == "torch":
            given = _module(model)
        network = sl.import_network(given, tuple(right) if kind == "torch" else None)
        compiled = sl.compile_network(network, progress=False)
        for arguments in (right, *wrong):
            expected = outcome(model, arguments) if kind == "torch" else None
            found.setdefault(name, []).append([outcome(compiled, arguments), expected])
    print(json.dumps(found))


def _module(function: Callable[..., Any]) -> Any:
    import torch

    class Model(torch.nn.Module):
        def forward(self, *arguments: Any) -> Any:
            return function(*arguments)

    return Model()


if __name__ == "__main__":
    main(sys.argv[1])
