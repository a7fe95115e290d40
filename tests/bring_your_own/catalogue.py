"""All programs, in the order of the table."""

from __future__ import annotations

from tests.bring_your_own.program import Program
from tests.bring_your_own.programs import (
    attention,
    bits,
    convolutions,
    elementwise,
    in_place,
    indexing,
    linear_algebra,
    networks,
    number_pairs,
    pooling,
    rearranging,
    reductions,
    relax_functions,
    scans,
    stencils,
)

_TOPICS = (
    elementwise,
    bits,
    number_pairs,
    reductions,
    scans,
    in_place,
    indexing,
    rearranging,
    linear_algebra,
    stencils,
    pooling,
    convolutions,
    networks,
    attention,
    relax_functions,
)
PROGRAMS: dict[str, Program] = {
    value.name: value
    for topic in _TOPICS
    for value in vars(topic).values()
    if isinstance(value, Program)
}

# The tests have others of their kind.
BENCHMARK_ONLY = frozenset(
    {
        "horner_float64",
        "average_int16",
        "rescale_to_uint8",
        "hypot_float16",
        "morton_code_int64",
        "fft_butterfly",
        "newton_square_root",
        "column_sum_float64",
        "product_of_rows",
        "log_sum_exp",
        "running_maximum_int32",
        "relu_in_place_int8",
        "one_hot",
        "lower_triangle_int32",
        "roll_and_reverse_int16",
        "outer_product",
        "matmul_uint8",
        "gram_matrix",
        "bilinear_form",
        "kronecker",
        "blur_1d",
        "average_pool_without_padding",
        "bilinear_upsampling",
        "laplacian_3d_float64",
        "group_conv2d_with_padding",
        "transposed_conv1d",
        "group_norm",
        "causal_attention",
        "masked_attention",
        "swiglu",
        "lstm_cell",
        "relax_variance",
        "relax_log_softmax",
    }
)
TESTED = tuple(name for name in PROGRAMS if name not in BENCHMARK_ONLY)
