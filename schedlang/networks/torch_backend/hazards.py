"""Which operators of torch fail for no values, or fail in a compiled network where they do there.

Of all others, torch runs the graph: a compiled network would not notice. The names are those of
``torch.export`` before it decomposes anything, which are one for each way to write an operator.
"""

from __future__ import annotations

from typing import Any

_VIEWS = """
    alias as_strided chunk detach diagonal expand expand_as flatten movedim mH mT narrow numpy_T
    permute pixel_shuffle pixel_unshuffle channel_shuffle reshape reshape_as select slice split
    split_with_sizes squeeze swapaxes t tensor_split transpose unbind unflatten unfold unsafe_chunk
    unsafe_split unsqueeze view view_as view_as_complex view_as_real adjoint im2col col2im
    hsplit vsplit dsplit moveaxis swapdims ravel matrix_H atleast_1d atleast_2d atleast_3d
""".split()
_COPIES = """
    _to_copy broadcast_tensors broadcast_to cat clone column_stack concat concatenate
    constant_pad_nd contiguous copy dstack diag diag_embed diagonal_scatter fill flip fliplr flipud
    hstack lift_fresh lift_fresh_copy meshgrid pad reflection_pad1d reflection_pad2d
    reflection_pad3d repeat replication_pad1d replication_pad2d replication_pad3d roll rot90
    row_stack select_scatter slice_scatter stack tile to tril triu type_as vstack where zero float
    block_diag cartesian_prod combinations _cast_Float
""".split()
_MADE = """
    arange blackman_window empty empty_like empty_permuted eye full full_like hamming_window
    hann_window kaiser_window bartlett_window linspace logspace new_empty new_full new_ones
    new_zeros ones ones_like scalar_tensor tril_indices triu_indices vander zeros zeros_like
""".split()
_REDUCTIONS = """
    _log_softmax _softmax all amax amin aminmax any argmax argmin argsort count_nonzero cummax
    cummin cumprod cumsum cumulative_trapezoid diff kthvalue linalg_matrix_norm linalg_norm
    linalg_vector_norm log_softmax logcumsumexp logsumexp max mean median min mode msort nanmean
    nanmedian nansum norm normalize prod renorm softmax softmin sort special_logsumexp std std_mean
    sum sum_to_size topk trace trapezoid trapz var var_mean bucketize searchsorted isin isclose
    special_log_softmax special_softmax frobenius_norm nuclear_norm equal allclose gradient
""".split()
_PRODUCTS = """
    addbmm addmm addmv addr baddbmm bilinear bmm chain_matmul conv1d conv2d conv3d conv_tbc
    conv_transpose1d conv_transpose2d conv_transpose3d convolution cov corrcoef cross dot einsum
    ger inner kron linalg_cross linalg_matmul linalg_matrix_power linalg_multi_dot linalg_vecdot
    linear matmul matrix_power mm mv outer scaled_dot_product_attention tensordot vdot cdist
    pairwise_distance cosine_similarity _euclidean_dist gru gru_cell lstm lstm_cell rnn_relu
    rnn_relu_cell rnn_tanh rnn_tanh_cell
""".split()
_LAYERS = """
    _adaptive_avg_pool2d _adaptive_avg_pool3d _native_batch_norm_legit
    _native_batch_norm_legit_no_training adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
    adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d affine_grid_generator alpha_dropout
    avg_pool1d avg_pool2d avg_pool3d batch_norm celu dropout elu feature_alpha_dropout
    feature_dropout gelu glu grid_sampler grid_sampler_2d grid_sampler_3d group_norm hardshrink
    hardsigmoid hardswish hardtanh instance_norm layer_norm leaky_relu local_response_norm
    log_sigmoid lp_pool1d lp_pool2d max_pool1d max_pool1d_with_indices max_pool2d
    max_pool2d_with_indices max_pool3d max_pool3d_with_indices mish native_batch_norm
    native_dropout native_group_norm native_layer_norm prelu relu6 rms_norm rrelu selu silu
    softplus softshrink threshold upsample_bicubic2d upsample_bilinear2d upsample_linear1d
    upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_trilinear3d
    _upsample_bilinear2d_aa _upsample_bicubic2d_aa _upsample_nearest_exact1d
    _upsample_nearest_exact2d _upsample_nearest_exact3d log_softmax softmax
    binary_cross_entropy_with_logits cosine_embedding_loss gaussian_nll_loss hinge_embedding_loss
    huber_loss kl_div l1_loss margin_ranking_loss mse_loss poisson_nll_loss smooth_l1_loss
    soft_margin_loss triplet_margin_loss
""".split()
# A call of a compiled network is an error where one of these would be, and torch runs it then.
_CHECKED = """
    binary_cross_entropy cross_entropy_loss div divide embedding floor_divide fmod gather index
    index_add index_copy index_fill index_put index_select max_unpool2d max_unpool3d nll_loss
    nll_loss2d nll_loss_nd one_hot remainder scatter take take_along_dim true_divide
""".split()
# Of integers' bits; torch defines shifts by any distance, and does not tag these as pointwise.
_BITS = ["__and", "__or", "__xor", "__lshift", "__rshift"]
# Of shapes and types, which torch has looked at.
_STATIC = ["_assert_tensor_metadata", "getitem", "sym_size", "sym_stride", "sym_numel"]

_SAFE = frozenset(
    [*_VIEWS, *_COPIES, *_MADE, *_REDUCTIONS, *_PRODUCTS, *_LAYERS, *_CHECKED, *_BITS, *_STATIC]
)


# Of Python's module ``operator``, and attributes; torch's own names are those of its operators.
_PYTHONS = """
    and contiguous dim floordiv getattr iadd iand imul inv invert ior isub itruediv ixor mod not
    numel or size truediv xor
""".split()
_HARMLESS = _SAFE.union(_PYTHONS)


def hazard(torch: Any, graph: Any) -> str:
    """Say which operator of an exported graph may fail for some values; empty where none does.

    Functions of each element (torch tags them as pointwise) fail for none but divisions of
    integers, which are checked.
    """
    for node in graph.nodes:
        if node.op != "call_function" or _operator(node.target) in _SAFE:
            continue
        if torch.Tag.pointwise not in getattr(node.target, "tags", ()):
            return f"{node.target} may fail for some values, and a network would not notice"
    return ""


def is_harmless(torch: Any, target: Any) -> bool:
    """Tell, by the name alone, whether what a graph calls before it is exported cannot fail."""
    name = _operator(target)
    overloads = getattr(torch.ops.aten, name, None) if name.isidentifier() else None
    tagged = any(
        torch.Tag.pointwise in getattr(overloads, one).tags
        for one in (overloads.overloads() if overloads is not None else ())
    )
    return tagged or name in _HARMLESS


def _operator(target: Any) -> str:
    """Return the name of a target without overload and ``_``; empty for operators of others."""
    if getattr(target, "namespace", "aten") != "aten":
        return ""
    packet = getattr(target, "overloadpacket", target)
    name = packet if isinstance(packet, str) else getattr(packet, "__name__", "")
    return str(name).rstrip("_")
