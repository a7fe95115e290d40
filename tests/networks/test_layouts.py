"""Networks with channels first compute the same with channels last inside."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

import schedlang as sl
from schedlang.tvm.relax.axis_orders import channels_last, of_reshaped, of_transposed, reordered

RNG = np.random.default_rng(0)
op, nn = relax.op, relax.op.nn
Emit = Callable[[Any], Any]
SPATIAL = {3: "W", 4: "HW", 5: "DHW"}


def weight(*shape: int) -> relax.Expr:
    return relax.const((RNG.standard_normal(shape) * 0.5).astype(np.float32))


def module(body: Callable[..., Any], *shapes: Sequence[int], dtype: str = "float32") -> Any:
    """A Relax module: ``body`` takes ``emit`` and the inputs, and returns an output or several."""
    builder = relax.BlockBuilder()
    inputs = [
        relax.Var(f"x{place}", relax.TensorType(shape, dtype)) for place, shape in enumerate(shapes)
    ]
    with builder.function("main", inputs):
        with builder.dataflow():
            made = body(builder.emit, *inputs)
            output = builder.emit_output(
                relax.Tuple(list(made)) if isinstance(made, tuple) else made
            )
        builder.emit_func_output(output)
    return builder.get()


def imported(body: Callable[..., Any], *shapes: Sequence[int]) -> sl.Network:
    """The network, which computes what TVM does without any change of layouts."""
    network = sl.import_network(module(body, *shapes))
    errors = network.verify(tolerance=1e-4)
    assert errors.passed, str(errors)
    return network


def functions(network: sl.Network) -> list[str]:
    return [call.function for call in network.calls]


def conv(x: Any, channels: int, size: int = 3, groups: int = 1, **options: Any) -> Any:
    """A convolution with channels first, of as many axes as ``x`` has."""
    shape = [int(extent) for extent in x.ty.shape]
    spatial = SPATIAL[len(shape)]
    options.setdefault("padding", size // 2)
    return getattr(nn, f"conv{len(spatial)}d")(
        x,
        weight(channels, shape[1] // groups, *[size] * len(spatial)),
        groups=groups,
        data_layout=f"NC{spatial}",
        kernel_layout=f"OI{spatial}",
        **options,
    )


def turned(x: Any, channels: int, size: int, **options: Any) -> Any:
    """A transposed convolution with channels first."""
    shape = [int(extent) for extent in x.ty.shape]
    spatial = SPATIAL[len(shape)]
    return getattr(nn, f"conv{len(spatial)}d_transpose")(
        x,
        weight(shape[1], channels, *[size] * len(spatial)),
        data_layout=f"NC{spatial}",
        kernel_layout=f"IO{spatial}",
        **options,
    )


def bias(x: Any, channels: int) -> Any:
    return op.add(x, weight(1, channels, *[1] * (len(x.ty.shape) - 2)))


def test_a_residual_network_has_no_transposes_inside() -> None:
    """From the input, which the first convolution reads as it is, to the scores."""

    def body(emit: Emit, x: Any) -> Any:
        stem = emit(nn.relu(emit(bias(emit(conv(x, 8, strides=2)), 8))))
        stem = emit(nn.max_pool2d(stem, [3, 3], [2, 2], [1, 1, 1, 1]))
        inner = emit(nn.relu(emit(bias(emit(conv(stem, 8)), 8))))
        inner = emit(bias(emit(conv(inner, 8)), 8))
        joined = emit(nn.relu(emit(op.add(inner, stem))))
        wide = emit(op.concat([joined, emit(conv(joined, 4, 1))], 1))
        squeezed = emit(nn.adaptive_avg_pool2d(wide, [1, 1]))
        gate = emit(op.sigmoid(emit(conv(squeezed, 12, 1))))
        pooled = emit(nn.adaptive_avg_pool2d(emit(op.multiply(wide, gate)), [1, 1]))
        flat = emit(op.reshape(pooled, (1, 12)))
        return emit(op.matmul(flat, weight(12, 5)))

    network = imported(body, (1, 3, 13, 14))
    assert functions(network) == [
        "fused_conv2d_add_relu",
        "max_pool2d",
        "fused_conv2d1_add1_relu1",
        "fused_conv2d1_add1_add2_relu1",
        "conv2d2",
        "concatenate",
        "adaptive_avg_pool2d",
        "fused_conv2d3_tir_sigmoid_multiply",
        "adaptive_avg_pool2d",
        "reshape",
        "matmul",
    ]


CONVOLUTIONS: dict[str, tuple[tuple[int, ...], Callable[[Any], Any]]] = {
    "1d": ((2, 3, 9), lambda x: conv(x, 5, strides=2)),
    "3d": ((1, 3, 4, 5, 6), lambda x: conv(x, 4, strides=[1, 2, 1])),
    "uneven padding": ((1, 3, 6, 5), lambda x: conv(x, 4, padding=[0, 1, 2, 0])),
    "dilated": ((1, 3, 9, 8), lambda x: conv(x, 4, dilation=[2, 1], padding=2)),
    "no padding": ((1, 3, 6, 5), lambda x: conv(x, 4, strides=2, padding=0)),
    "depthwise": ((1, 6, 5, 7), lambda x: conv(x, 6, groups=6, strides=[2, 1])),
    "depthwise, several results": ((1, 3, 5, 5), lambda x: conv(x, 6, groups=3)),
    "depthwise 1d": ((1, 4, 7), lambda x: conv(x, 4, groups=4)),
    "groups": ((1, 6, 5, 4), lambda x: conv(x, 4, groups=2)),
    "wide sums": ((1, 3, 5, 5), lambda x: conv(x, 4, out_dtype="float64")),
    "transposed": ((1, 3, 4, 5), lambda x: turned(x, 4, 4, strides=[2, 2], padding=[1] * 4)),
    "transposed, stride does not divide": (
        (2, 3, 4, 3),
        lambda x: turned(x, 2, 3, strides=[2, 3], padding=[2, 1, 1, 0], output_padding=[1, 0]),
    ),
    "transposed, small window": ((1, 2, 3, 3), lambda x: turned(x, 3, 2, strides=[3, 3])),
    "transposed, stride 1": ((1, 3, 4, 4), lambda x: turned(x, 2, 3, padding=[0, 1, 0, 1])),
    "transposed 1d": ((1, 3, 5), lambda x: turned(x, 2, 5, strides=2, padding=[4, 3])),
    "transposed 1d, large stride": (
        (1, 3, 5),
        lambda x: turned(x, 2, 16, strides=8, padding=[4, 4]),
    ),
    "transposed 3d": ((1, 2, 2, 3, 2), lambda x: turned(x, 3, 2, strides=[2, 2, 2])),
    "transposed, groups": ((1, 4, 3, 3), lambda x: turned(x, 2, 2, groups=2, strides=[2, 2])),
    "transposed, dilated": ((1, 2, 4, 4), lambda x: turned(x, 2, 2, dilation=[2, 2])),
}


@pytest.mark.slow
def test_convolutions() -> None:
    """Each reads an input as it is, and what a convolution computes."""

    def body(emit: Emit, *inputs: Any) -> Any:
        cases = [case for _, case in CONVOLUTIONS.values()]
        made = [emit(case(x)) for case, x in zip(cases, inputs, strict=True)]
        again = [
            emit(case(emit(conv(x, int(x.ty.shape[1]), 1))))
            for case, x in list(zip(cases, inputs, strict=True))[::2]
        ]
        return *made, *again

    network = imported(body, *[shape for shape, _ in CONVOLUTIONS.values()])
    calls = [name for name in functions(network) if "conv" in name]
    assert len(calls) == len(CONVOLUTIONS) + 2 * len(list(CONVOLUTIONS)[::2])
    left = [name for name in network.parameters if "(folded)" not in name]
    assert len(left) == 3, "the weights of those with groups, twice, or dilation"


@pytest.mark.parametrize("stride", [2, 3])
def test_a_transposed_convolution_divides_no_index_in_its_sum(stride: int) -> None:
    """TVM computes some quotients wrongly after loops are fused: a schedule would be wrong."""
    given = module(
        lambda emit, x: emit(turned(x, 4, 4, strides=[stride] * 2, padding=[1] * 4)), (1, 3, 4, 5)
    )
    network = sl.import_network(given)
    [task] = [task for task in network.tasks if not task.moves_data]
    sums = [line for line in task.workload.func.script().splitlines() if "pad_temp[" in line]
    assert sums and not any("//" in line or "%" in line for line in sums)


def spread(emit: Emit, x: Any) -> Any:
    """The mean over the channels as a tensor of fewer axes, added."""
    return emit(op.add(x, emit(op.mean(x, [1]))))


FOLLOWING: dict[str, Callable[[Emit, Any], Any]] = {
    "clip": lambda emit, x: op.clip(x, -1, 1),
    "rows": lambda emit, x: op.multiply(x, weight(6, 1, 5)),
    "columns": lambda emit, x: op.subtract(weight(5), x),
    "where": lambda emit, x: op.where(
        emit(op.greater(x, relax.const(0.0, "float32"))), x, weight(1, 6, 7, 5)
    ),
    "fewer axes": spread,
    "concatenated": lambda emit, x: op.concat([x, weight(1, 2, 7, 5), x], -3),
    "stacked rows": lambda emit, x: op.concat([x, x], 2),
    "parts": lambda emit, x: emit(op.split(x, [1, 4], 1))[1],
    "slice": lambda emit, x: op.strided_slice(x, [1, -1], [1, 0], [6, 5], [2, 3]),
    "reversed": lambda emit, x: op.flip(x, 1),
    "padded": lambda emit, x: nn.pad(x, [0, 0, 1, 0, 2, 3, 0, 4], pad_value=0.5),
    "reflected": lambda emit, x: nn.pad(x, [0, 0, 0, 0, 2, 3, 0, 1], "reflect"),
    "softmax": lambda emit, x: nn.softmax(x, 1),
    "taken": lambda emit, x: op.take(x, relax.const(np.array([3, 0, 3]), "int64"), axis=2),
    "broadcast": lambda emit, x: op.broadcast_to(emit(op.max(x, [2, 3], True)), (2, 6, 2, 3)),
    "mean of places": lambda emit, x: op.mean(x, [2, 3]),
    "mean of channels": lambda emit, x: op.sum(x, [-3], keepdims=True),
    "mean of rows": lambda emit, x: op.variance(x, [2]),
    "mean of all": lambda emit, x: op.mean(x),
    "index": lambda emit, x: op.argmax(x, 1),
    "largest": lambda emit, x: nn.max_pool2d(x, [2, 3], [2, 1], [0, 1, 1, 0], ceil_mode=True),
    "average": lambda emit, x: nn.avg_pool2d(x, [3, 3], [2, 2], [1, 1, 1, 1]),
    "adaptive": lambda emit, x: nn.adaptive_avg_pool2d(x, [3, 2]),
    "resized": lambda emit, x: op.image.resize2d(x, (14, 9), layout="NCHW", method="linear"),
    "prelu": lambda emit, x: nn.prelu(x, weight(6), 1),
    "groups": lambda emit, x: nn.group_norm(x, weight(6), weight(6), 3, 1, [2, 3]),
    "instance": lambda emit, x: nn.instance_norm(x, weight(6), weight(6), 1, [2, 3]),
    "layer": lambda emit, x: nn.layer_norm(x, weight(5), weight(5), [-1]),
    "whole layer": lambda emit, x: nn.layer_norm(x, weight(6, 7, 5), weight(6, 7, 5), [1, 2, 3]),
    "nothing known": lambda emit, x: op.cumsum(x, 1),
    "itself": lambda emit, x: x,
}


@pytest.mark.slow
def test_operators_behind_a_convolution() -> None:
    """Their results, read as the model has them and by another convolution."""

    def body(emit: Emit, x: Any) -> Any:
        start = emit(conv(x, 6))
        made = {name: emit(follow(emit, start)) for name, follow in FOLLOWING.items()}
        images = [value for value in made.values() if len(value.ty.shape) == 4]
        return *made.values(), *(emit(conv(value, 3, 1)) for value in images)

    network = imported(body, (1, 3, 7, 5))
    assert len(network.outputs) > len(FOLLOWING)


VIEWS: dict[str, Callable[[Emit, Any], Any]] = {
    "shuffled": lambda emit, x: op.reshape(
        emit(op.permute_dims(emit(op.reshape(x, (1, 2, 3, 4, 5))), [0, 2, 1, 3, 4])), (1, 6, 4, 5)
    ),
    "tokens": lambda emit, x: op.permute_dims(emit(op.reshape(x, (1, 6, 20))), [0, 2, 1]),
    "last": lambda emit, x: op.permute_dims(x, [0, 2, 3, 1]),
    "there and back": lambda emit, x: op.permute_dims(
        emit(op.multiply(emit(op.permute_dims(x, [0, 2, 3, 1])), weight(6))), [0, 3, 1, 2]
    ),
    "heads": lambda emit, x: op.permute_dims(emit(op.reshape(x, (1, 2, 3, 20))), [0, 1, 3, 2]),
    "all reversed": lambda emit, x: op.permute_dims(x),
    "mixed": lambda emit, x: op.reshape(x, (1, 8, 15)),
    "squeezed": lambda emit, x: op.squeeze(emit(op.mean(x, [2], True)), [2]),
    "expanded": lambda emit, x: op.expand_dims(x, [1, 5]),
    "larger than pixels": lambda emit, x: op.reshape(
        emit(
            op.permute_dims(emit(op.reshape(x, (1, 1, 3, 2, 4, 5))), [0, 1, 4, 2, 5, 3]),
        ),
        (1, 1, 12, 10),
    ),
}


def test_views_behind_a_convolution() -> None:
    def body(emit: Emit, x: Any) -> Any:
        made = [emit(view(emit, emit(conv(x, 6)))) for view in VIEWS.values()]
        images = [value for value in made if len(value.ty.shape) == 4]
        return *made, *(emit(conv(value, 3, 1)) for value in images)

    imported(body, (1, 3, 4, 5))


def test_a_dense_layer_on_an_image_has_its_rows_in_another_order() -> None:
    def body(emit: Emit, x: Any) -> Any:
        flat = emit(op.reshape(emit(conv(x, 6)), (2, 120)))
        return emit(op.matmul(flat, weight(120, 7)))

    network = imported(body, (2, 3, 4, 5))
    assert [name for name in functions(network) if name != "reshape"] == ["conv2d", "matmul"]


def test_tokens_of_an_image_need_no_transpose() -> None:
    """A convolution, its places in a row and a dense layer on their channels."""

    def body(emit: Emit, x: Any) -> Any:
        row = emit(op.reshape(emit(conv(x, 6, 2, strides=2, padding=0)), (1, 6, 6)))
        return emit(op.matmul(emit(op.permute_dims(row, [0, 2, 1])), weight(6, 7)))

    network = imported(body, (1, 3, 4, 6))
    assert [name for name in functions(network) if name != "reshape"] == ["conv2d", "matmul"]


def test_a_channel_shuffle_is_one_function() -> None:
    def body(emit: Emit, x: Any) -> Any:
        return emit(conv(emit(VIEWS["shuffled"](emit, emit(conv(x, 6)))), 3))

    network = imported(body, (1, 3, 4, 5))
    moving = [task.name for task in network.tasks if task.moves_data]
    assert moving == ["fused_reshape_transpose_reshape1", "transpose1"], "and the output"


def test_what_several_read_is_transposed_once() -> None:
    def body(emit: Emit, x: Any) -> Any:
        made = emit(conv(x, 6))
        return made, emit(conv(x, 5)), made, emit(op.cumsum(made, 2)), x

    network = imported(body, (1, 3, 4, 5))
    turned = [name for name in functions(network) if name.startswith("transpose")]
    assert len(turned) == 3, "the input, and the results of both convolutions"
    assert len(functions(network)) == 5


def test_weights_that_are_inputs_stay_first() -> None:
    def body(emit: Emit, x: Any, w: Any) -> Any:
        return emit(conv(emit(nn.conv2d(emit(conv(x, 4)), w)), 5))

    network = imported(body, (1, 3, 6, 6), (2, 4, 3, 3))
    assert network.verify().passed


def test_a_network_without_convolutions_stays_as_it_is() -> None:
    def body(emit: Emit, x: Any) -> Any:
        turned = emit(op.permute_dims(x, [0, 3, 1, 2]))
        return emit(nn.max_pool2d(emit(op.exp(turned)), [2, 2])), turned

    given = module(body, (1, 4, 5, 3))
    tvm.ir.assert_structural_equal(
        sl.import_network(given).mod, sl.import_network(given, layout="as_is").mod
    )


def test_as_is() -> None:
    given = module(lambda emit, x: emit(conv(x, 4)), (1, 3, 5, 5))
    network = sl.import_network(given, layout="as_is")
    assert functions(network) == ["conv2d"]
    assert next(iter(network.parameters.values())).shape == (4, 3, 3, 3)
    with pytest.raises(sl.NetworkError, match="layout='NHWC': expected one of 'channels_last'"):
        sl.import_network(given, layout="NHWC")


def test_other_functions_are_those_of_the_network_as_it_is() -> None:
    """Convolutions aside, such as indices in int64 and products."""

    def body(emit: Emit, x: Any) -> Any:
        wide = emit(op.astype(emit(op.reshape(x, (12, 20))), "int64"))
        picked = emit(op.take(weight(40, 3), emit(op.clip(wide, 0, 39)), axis=0))
        return emit(conv(x, 4)), picked, emit(op.matmul(picked, weight(3, 5)))

    given = module(body, (1, 3, 16, 5))
    keys = [
        {task.workload.exact_key for task in sl.import_network(given, layout=layout).tasks}
        for layout in ("channels_last", "as_is")
    ]
    assert len(keys[1] - keys[0]) == 1, "the convolution"


EXTENTS = [
    (1,),
    (2,),
    (3,),
    (1, 1),
    (2, 3),
    (6,),
    (2, 1),
    (3, 2),
    (2, 1, 3),
    (1, 6),
    (2, 2, 3),
    (12,),
]


def test_orders_of_views() -> None:
    """A copy in the order that is asked for, reshaped, is a copy of the reshaped tensor."""
    checked = 0
    for parts in itertools.product(EXTENTS, repeat=3):
        before = tuple(extent for part in parts for extent in part)
        size = int(np.prod(before))
        if len(before) > 5 or size > 150:
            continue
        x = np.arange(size).reshape(before)
        order = tuple(int(axis) for axis in RNG.permutation(len(before)))
        for after in ((size,), (2, size // 2), (size // 3, 3), (*before[::-1], 1)):
            if np.prod(after) != size:
                continue
            needed, made = of_reshaped(order, before, after)
            copy = x.transpose(needed).reshape(reordered(after, made))
            np.testing.assert_array_equal(copy, x.reshape(after).transpose(made))
            checked += 1
        axes = tuple(int(axis) for axis in RNG.permutation(len(before)))
        again = x.transpose(axes).transpose(of_transposed(order, axes))
        np.testing.assert_array_equal(again, x.transpose(order))
    assert checked > 1000


@pytest.mark.parametrize(
    ("before", "after", "made"),
    [
        ((1, 6, 4, 5), (1, 2, 3, 4, 5), (0, 3, 4, 1, 2)),
        ((1, 6, 4, 5), (1, 6, 20), (0, 2, 1)),
        ((2, 6, 1, 1), (2, 6), (0, 1)),
        ((2, 6, 4, 5), (2, 120), (0, 1)),
        ((2, 6, 4, 5), (12, 4, 5), (0, 1, 2)),
    ],
)
def test_channels_stay_last_where_they_can(
    before: tuple[int, ...], after: tuple[int, ...], made: tuple[int, ...]
) -> None:
    assert of_reshaped(channels_last(len(before)), before, after)[1] == made
