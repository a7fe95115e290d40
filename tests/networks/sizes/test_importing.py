"""``import_network`` with several examples of a model of torch or ONNX."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl

torch = pytest.importorskip("torch", reason="needs torch: pip install 'schedlang[torch]'")
models: Any = pytest.importorskip("tests.networks.models")


def perceptron() -> Any:
    return models.seeded(
        torch.nn.Sequential(
            torch.nn.Linear(8, 16),
            torch.nn.BatchNorm1d(16),
            torch.nn.GELU(),
            torch.nn.Linear(16, 3),
        )
    )


def test_weights_are_shared_also_those_that_were_computed() -> None:
    found = sl.import_network(perceptron(), [(models.image(n, 8),) for n in (4, 1, 7)])
    assert isinstance(found, sl.NetworkSet) and found.sizes == ("4", "1", "7")
    folded = [name for name in found[0].parameters if name.endswith("(folded)")]
    assert folded
    for one, other in itertools.combinations(found, 2):
        assert list(one.parameters) == list(other.parameters)
        for name, value in one.parameters.items():
            assert np.shares_memory(value, other.parameters[name]), name
    assert found.verify().passed


@pytest.mark.slow
def test_attention_at_lengths_and_batches() -> None:
    model = models.seeded(models.attention()[0])
    sizes = ((1, 4), (2, 4), (2, 7))
    found = sl.import_network(model, [(models.image(*size, 16),) for size in sizes])
    assert found.sizes == ("1x4", "2x4", "2x7")
    exe = sl.compile_network(found)
    for batch, length in sizes:
        x = models.image(batch, length, 16)
        with torch.no_grad():
            right = model.eval()(x)
        torch.testing.assert_close(exe(x), right, rtol=1e-4, atol=1e-5)


def test_dicts_of_keyword_arguments() -> None:
    examples = [{"input": models.image(n, 8)} for n in (2, 3)]
    found = sl.import_network(perceptron(), examples, name="mine", weights=[1, 3])
    assert found.name == "mine" and found.weights == (1.0, 3.0)
    exe = sl.compile_network(found)
    assert exe(input=models.image(3, 8)).shape == (3, 3)
    with pytest.raises(sl.NetworkError, match="another structure"):
        exe(models.image(3, 8))


def x(*shape: int, dtype: Any = None) -> Any:
    return torch.zeros(shape, dtype=dtype)


@pytest.mark.parametrize(
    ("examples", "said"),
    [
        ([], "the list of examples is empty"),
        ([(x(2, 8),), (x(2, 8),)], r"examples 0 and 1 have the same shapes \(\[2, 8\]\)"),
        ([(x(2, 8),), (x(3, 8, dtype=torch.float64),)], "argument 0: elements of float64, and of"),
        ([(x(2, 8),), (x(3, 8), 1)], "example 1: 2 arguments, and 1 argument in example 0"),
        ([(x(2, 8),), (x(8),)], "example 1, argument 0: 1 axes, and 2 in example 0"),
        ([(x(2, 8),), (7,)], r"example 1, argument 0: 7, and a tensor \[2, 8\] in example 0"),
        ([(x(2, 8),), ((x(3, 8),),)], "argument 0: 1 item, and a tensor"),
        ([{"input": x(2, 8)}, {"x": x(3, 8)}], "the names x, and the names input in example 0"),
        ([(x(2, 8),), (x(2, 9),)], r"example 1 \(\[2, 9\]\): torch.export cannot capture"),
        ([x(2, 8), x(3, 8)], r"a list of tensors is one example, of 2 arguments: .*\[\(small,\)"),
    ],
)
def test_wrong_examples_are_named(examples: Any, said: str) -> None:
    with pytest.raises(sl.NetworkError, match=said):
        sl.import_network(perceptron(), examples)


def test_numbers_among_the_arguments_are_the_same_in_all() -> None:
    model = models.Function(lambda self, x, count: x * count)
    found = sl.import_network(model, [(x(2), 3), (x(4), 3)])
    assert sl.compile_network(found)(torch.ones(4), 3).tolist() == [3.0] * 4
    with pytest.raises(sl.NetworkError, match="argument 1: 4, and 3 in example 0"):
        sl.import_network(model, [(x(2), 3), (x(4), 4)])


def test_symbolic_sizes_are_refused_with_what_to_do() -> None:
    program = torch.export.export(
        perceptron().eval(),
        (x(4, 8),),
        dynamic_shapes={"input": {0: torch.export.Dim("batch", min=2, max=9)}},
    )
    with pytest.raises(sl.NetworkError, match=r"dynamic shapes .*examples of the sizes that you"):
        sl.import_network(program)
    with pytest.raises(sl.NetworkError, match="an ExportedProgram has shapes of its own"):
        sl.import_network(program, [(x(4, 8),), (x(5, 8),)])


def test_an_operator_that_fails_names_the_example() -> None:
    model = models.Function(lambda self, x: torch.fft.rfft(x).abs())
    with pytest.raises(sl.UnsupportedOperatorError, match=r"example 0 \(\[2, 4\]\)") as caught:
        sl.import_network(model, [(x(2, 4),), (x(3, 4),)])
    assert caught.value.operators


def onnx_model(batch: int | str) -> Any:
    onnx = pytest.importorskip("onnx", reason="needs onnx: pip install 'schedlang[onnx]'")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    weight = helper.make_tensor("w", kind, (8, 3), np.linspace(-1, 1, 24, dtype="float32"))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        helper.make_node("Relu", ["y"], ["z"]),
    ]
    taken = [helper.make_tensor_value_info("x", kind, (batch, 8))]
    given = [helper.make_tensor_value_info("z", kind, (batch, 3))]
    return helper.make_model(helper.make_graph(nodes, "g", taken, given, [weight]))


def test_onnx_with_dynamic_axes(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="needs onnx: pip install 'schedlang[onnx]'")
    path = tmp_path / "free.onnx"
    onnx.save(onnx_model("batch"), path)
    arrays = [np.ones((n, 8), "float32") for n in (2, 5)]
    found = sl.import_network(path, [(one,) for one in arrays])
    assert found.name == "free" and found.sizes == ("2", "5")
    assert np.shares_memory(*(next(iter(one.parameters.values())) for one in found))
    exe = sl.compile_network(found)
    assert exe.verify().passed and exe(arrays[1]).shape == (5, 3)
    fixed = r"input 'x' of the ONNX model has the fixed shape \[2, 8\], and example 1 has \[5, 8\]"
    with pytest.raises(sl.NetworkError, match=fixed):
        sl.import_network(onnx_model(2), [(one,) for one in arrays])
