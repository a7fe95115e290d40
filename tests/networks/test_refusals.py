"""Models that cannot be networks: the error says what is wrong, and where it stands."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import schedlang as sl


class NotInstalled:
    """Stands for a module of torch where torch is not installed."""


NotInstalled.__module__, NotInstalled.__qualname__ = "torch.nn.modules.module", "Module"
NotInstalled.__name__ = "Module"


@pytest.mark.parametrize(
    ("model", "extra"), [(NotInstalled(), "torch"), ("model.onnx", "onnx")], ids=["torch", "onnx"]
)
def test_a_missing_package_names_the_extra(
    model: Any, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, extra, None)
    with pytest.raises(sl.MissingExtraError, match=rf'pip install "schedlang\[{extra}\]"'):
        sl.import_network(model, ())


def test_what_is_no_model() -> None:
    with pytest.raises(sl.NetworkError, match="not from a int"):
        sl.import_network(3)


def torch_models() -> Any:
    return pytest.importorskip(
        "tests.networks.models", reason="needs torch: pip install 'schedlang[torch]'"
    )


def test_models_of_torch() -> None:
    models = torch_models()
    torch, Function, image = models.torch, models.Function, models.image
    x = image(2, 3, 4)

    class Counter(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: Any) -> Any:
            self.count += 1
            return x + self.count

    inner = Function(lambda self, x: torch.fft.rfft(x).abs())
    fourier = torch.nn.Sequential(torch.nn.Linear(4, 4), inner)
    with pytest.raises(sl.UnsupportedOperatorError, match=r"in module '1' \(Function\)") as caught:
        sl.import_network(fourier, (x,))
    assert list(caught.value.operators) == ["aten._fft_r2c.default"]
    refused: list[tuple[Any, Any, str]] = [
        (Counter(), (x,), "changes buffer 'count'"),
        (Function(lambda self, x: x.add_(1)), (x.clone(),), "changes input 'args_0'"),
        (Function(lambda self, x: torch.nonzero(x)), (x,), "aten.nonzero.default gives a shape"),
        (
            Function(lambda self, x: x * 2 if x.sum() > 0 else x),
            (x,),
            "torch.export cannot",
        ),
        (Function(lambda self, x: torch.dropout(x, 0.5, True)), (x,), "at random, as in training"),
        (Function(lambda self, x: x * 2), (x.to(torch.complex64),), "element type complex64"),
        (Function(lambda self, x: None), (x,), "returns no tensor"),
        (Function(lambda self, x: x * 2), None, "needs example inputs"),
    ]
    for model, examples, message in refused:
        with pytest.raises(sl.NetworkError, match=message):
            sl.import_network(model, examples)


def test_dynamic_shapes_of_a_program() -> None:
    torch = torch_models().torch
    program = torch.export.export(
        torch.nn.Linear(4, 2).eval(),
        (torch.ones(3, 4),),
        dynamic_shapes={"input": {0: torch.export.Dim("batch", min=2, max=9)}},
    )
    with pytest.raises(sl.NetworkError, match="dynamic shapes .*export it without dynamic_shapes"):
        sl.import_network(program)
