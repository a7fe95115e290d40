"""Convolutions of torch, plain and transposed, of 1, 2 and 3 spatial axes."""

from __future__ import annotations

from typing import Any

from tvm import relax

from schedlang.tvm.relax.program import shape_of
from schedlang.tvm.relax.torch.arguments import Converter, accumulator, argument, cast
from schedlang.tvm.values import dtype_of

_LAYOUTS = {3: ("NCW", "OIW", "IOW"), 4: ("NCHW", "OIHW", "IOHW"), 5: ("NCDHW", "OIDHW", "IODHW")}
_CONVOLUTIONS = {3: relax.op.nn.conv1d, 4: relax.op.nn.conv2d, 5: relax.op.nn.conv3d}
_TRANSPOSED = {
    3: relax.op.nn.conv1d_transpose,
    4: relax.op.nn.conv2d_transpose,
    5: relax.op.nn.conv3d_transpose,
}


def _spread(value: Any, count: int) -> list[int]:
    """``2 -> [2, 2]``: torch takes one number for all spatial axes."""
    values = [value] if isinstance(value, int) else list(value)
    return [int(item) for item in (values * count if len(values) == 1 else values)]


_DEFAULTS = {
    "stride": 1, "padding": 0, "dilation": 1, "transposed": False, "output_padding": 0, "groups": 1,
}  # fmt: skip


def _convolution(*names: str, transposed: bool = False) -> Converter:
    """Return the converter of an operator that has these arguments after input, weight and bias."""

    def convert(importer: Any, node: Any) -> Any:
        x, weight, bias = (argument(importer, node, place, "") for place in range(3))
        given = {
            name: argument(importer, node, place, name, _DEFAULTS[name])
            for place, name in enumerate(names, start=3)
        }
        settings = {**_DEFAULTS, "transposed": transposed, **given}
        return convolution(importer, x, weight, bias, **settings)

    return convert


def convolution(
    importer: Any,
    x: Any,
    weight: Any,
    bias: Any,
    *,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Any:
    """Emit a convolution of 1, 2 or 3 spatial axes, with or without a batch axis, and its bias."""
    builder = importer.block_builder
    spatial = len(shape_of(weight)) - 2
    batched = len(shape_of(x)) == spatial + 2
    if not batched:
        x = builder.emit(relax.op.expand_dims(x, 0))
    dtype = dtype_of(x)
    layout, straight, turned = _LAYOUTS[spatial + 2]
    options: dict[str, Any] = {
        "strides": _spread(stride, spatial),
        "padding": _spread(padding, spatial) * 2,
        "dilation": _spread(dilation, spatial),
        "groups": groups,
        "data_layout": layout,
        "kernel_layout": turned if transposed else straight,
        "out_dtype": accumulator(dtype),
    }
    if transposed:
        options["output_padding"] = _spread(output_padding, spatial)
    operators = _TRANSPOSED if transposed else _CONVOLUTIONS
    made = cast(importer, builder.emit(operators[spatial + 2](x, weight, **options)), dtype)
    if bias is not None:
        shaped = builder.emit(relax.op.reshape(bias, (1, shape_of(bias)[0], *[1] * spatial)))
        made = builder.emit(relax.op.add(made, shaped))
    return made if batched else builder.emit(relax.op.squeeze(made, [0]))


_plain = _convolution("stride", "padding", "dilation", "groups")
_transposed = _convolution(
    "stride", "padding", "output_padding", "groups", "dilation", transposed=True
)
CONVOLUTIONS: dict[str, Converter] = {
    "conv1d.default": _plain,
    "conv2d.default": _plain,
    "conv3d.default": _plain,
    "conv_transpose1d.default": _transposed,
    "conv_transpose2d.input": _transposed,
    "conv_transpose3d.input": _transposed,
    # Torch decomposes all others to this one.
    "convolution.default": _convolution(*_DEFAULTS),
}
