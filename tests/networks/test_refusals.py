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
    with pytest.raises(sl.NetworkError, match="not an int; sl.import_network"):
        sl.import_network(3)


def torch_models() -> Any:
    return pytest.importorskip(
        "tests.networks.models", reason="needs torch: pip install 'schedlang[torch]'"
    )


@pytest.mark.slow
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
            r"Function: a branch, a loop or a shape depends on the values of tensors, at .*where",
        ),
        (Function(lambda self, x: torch.dropout(x, 0.5, True)), (x,), "at random, as in training"),
        (Function(lambda self, x: x * 2), (x.to(torch.complex64),), "element type complex64"),
        (Function(lambda self, x: None), (x,), "returns no tensor"),
        (Function(lambda self, x: x * 2), None, "needs example inputs"),
        (
            Function(lambda self, x, i: x.scatter(0, i, 2.0)),
            (x[0, 0, 0], torch.tensor(0)),
            "TVM cannot lower the network",
        ),
    ]
    for model, examples, message in refused:
        with pytest.raises(sl.NetworkError, match=message):
            sl.import_network(model, examples)


def test_an_operator_that_torch_decomposes_wrongly() -> None:
    """If this fails, torch has mended it: drop it from ``_WRONG`` in ``from_torch.py``."""
    models = torch_models()
    torch, Function = models.torch, models.Function
    loss, name = torch.nn.functional.multilabel_margin_loss, "multilabel_margin_loss_forward"
    scores, targets = torch.arange(4.0)[None], torch.tensor([[1, -1, 0, 2]])
    theirs = torch._decomp.decomposition_table[getattr(torch.ops.aten, name).default]
    assert abs(theirs(scores, targets, 1)[0] - loss(scores, targets)) > 0.1
    with pytest.raises(sl.UnsupportedOperatorError, match=name):
        sl.import_network(Function(lambda self, *given: loss(*given)), (scores, targets))


def test_dynamic_shapes_of_a_program() -> None:
    torch = torch_models().torch
    program = torch.export.export(
        torch.nn.Linear(4, 2).eval(),
        (torch.ones(3, 4),),
        dynamic_shapes={"input": {0: torch.export.Dim("batch", min=2, max=9)}},
    )
    with pytest.raises(sl.NetworkError, match="dynamic shapes .*export it without dynamic_shapes"):
        sl.import_network(program)


def test_control_flow_is_one_message_with_the_line_of_the_model(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """torch prints its own graph, more than once, and logs."""
    torch = torch_models().torch

    class Branches(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            return x + 1 if x.sum() > 0 else x

    class Repeats(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            while x.sum() < 10:
                x = x * 2
            return x

    class Cuts(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            return x[: int(x.max())]

    lines = {
        Branches: "return x + 1 if x.sum() > 0 else x",
        Repeats: "while x.sum() < 10:",
        Cuts: "return x[: int(x.max())]",
    }
    capfd.readouterr()
    for kind, line in lines.items():
        # Two parts deep: the line is that of the part.
        model = torch.nn.Sequential(torch.nn.Identity(), torch.nn.Sequential(kind()))
        with pytest.raises(sl.NetworkError) as caught:
            sl.import_network(model, (torch.ones(4),))
        said = str(caught.value)
        assert f"{__file__}:" in said and f"`{line}`" in said and "torch.where" in said
        assert "\n" not in said and "aten" not in said
        assert caught.value.__cause__ is None and caught.value.__suppress_context__
    assert capfd.readouterr() == ("", "")


def test_other_failures_of_a_capture_name_the_line_once(
    capfd: pytest.CaptureFixture[str],
) -> None:
    torch = torch_models().torch

    class Tells(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            print("of the model", file=sys.stderr)
            return self.inner(x)

    capfd.readouterr()
    with pytest.raises(sl.NetworkError, match=r"RuntimeError: a and b .*`return self.inner\(x\)`"):
        sl.import_network(Tells(), (torch.ones(2, 7),))
    assert "Traceback" not in capfd.readouterr().err
    sl.import_network(Tells(), (torch.ones(2, 4),))
    assert "of the model" in capfd.readouterr().err


def test_functions_that_cannot_be_tuned_get_no_advice_for_their_writer() -> None:
    """TVM made them of operators: nobody can write them otherwise."""
    models = torch_models()
    network = sl.import_network(
        models.Function(lambda self, x: models.torch.scatter(x, 0, (x > 0).long(), x)),
        (models.image(2, 3),),
    )
    [reason] = network.untunable.values()
    assert "has no blocks" in reason and "prim_func" not in reason
    with pytest.raises(sl.WorkloadError, match="prim_func"):
        sl.Schedule(network.mod[next(iter(network.untunable))])
