"""Which composite operators of torch stay whole when a network is imported."""

from __future__ import annotations

KEPT = frozenset(
    f"aten.{name}"
    for name in (
        "linear.default",
        "matmul.default",
        "conv1d.default",
        "conv2d.default",
        "conv3d.default",
        "conv_transpose1d.default",
        "conv_transpose2d.input",
        "conv_transpose3d.input",
        "scaled_dot_product_attention.default",
        "softmax.int",
        "log_softmax.int",
        "gelu.default",
        "silu.default",
        "relu6.default",
        "hardtanh.default",
        "hardswish.default",
        "hardsigmoid.default",
        "softplus.default",
        "layer_norm.default",
        "group_norm.default",
        "max_pool1d.default",
        "max_pool2d.default",
        "max_pool3d.default",
        "avg_pool1d.default",
        "adaptive_avg_pool1d.default",
        "adaptive_avg_pool2d.default",
        "adaptive_avg_pool3d.default",
        "embedding.default",
        "pad.default",
        "upsample_nearest2d.vec",
        "upsample_bilinear2d.vec",
        "upsample_bicubic2d.vec",
    )
)
"""Torch decomposes all others into its core operators. These it would take apart into views, masks
and sums that TVM does not fuse again: attention alone becomes 20 operators. One that TVM fails to
convert as a whole is decomposed after all."""
