"""What of a graph of torch a compiled network cannot do as torch does, and how it is found out.

Some operators fail for some values: ``hazard`` knows them, and ``in_parts`` cuts a graph around
them, so that the rest is compiled. Weights may change after a network was compiled: a ``Stamp``
tells.
"""

from __future__ import annotations

import operator
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from operator import is_
from typing import Any
from weakref import ref

from schedlang.errors import require

# -- Operators that fail for no values, or fail in a compiled network as they do in torch ---------
#
# Of all others, torch runs the graph: a compiled network would not notice. The names are those of
# ``torch.export`` before it decomposes anything, which are one for each way to write an operator.

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


# -- A graph in parts, cut where an operator may fail ---------------------------------------------

# Of fewer operators, a call of a network takes longer than they do.
_LEAST = 2


def in_parts(torch: Any, module: Any, part: Callable[[Any], Any]) -> Any | None:
    """Return a module that computes the same, in parts; None where it has no part to compile.

    ``part`` makes what runs a part: it gets a module, and returns a callable. Operators that may
    fail, by their names, stand in parts of their own, which torch runs. What goes from part to
    part is tensors: else there is no cut.
    """
    numbers = _numbers(torch, module)
    if max(numbers.values(), default=0) == 0 or not _cuts_tensors_only(torch, module, numbers):
        return None
    split = require("torch.fx.passes.split_module", "torch.compile").split_module(
        module, None, numbers.__getitem__, keep_original_order=True
    )
    found = False
    for name, one in list(split.named_children()):
        nodes = [node for node in one.graph.nodes if _is_call(node)]
        if len(nodes) >= _LEAST and all(_is_harmless(torch, node) for node in nodes):
            setattr(split, name, _run_by(torch, one, part))
            found = True
    return split if found else None


def _numbers(torch: Any, module: Any) -> dict[Any, int]:
    """Return the number of the part of each call; fields of a result stay with the result."""
    numbers: dict[Any, int] = {}
    last, harmless = 0, True
    for node in module.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        source = node.args[0] if node.target is operator.getitem else None
        if source in numbers and not _is_tensor(torch, source):
            numbers[node] = numbers[source]
            continue
        safe = _is_harmless(torch, node)
        if numbers and not (safe and harmless):
            last += 1
        numbers[node], harmless = last, safe
    return numbers


def _cuts_tensors_only(torch: Any, module: Any, numbers: dict[Any, int]) -> bool:
    """Tell whether all that one part makes and another takes is tensors."""
    return all(
        _is_tensor(torch, node)
        for node, number in numbers.items()
        if node.op != "get_attr" and any(numbers.get(user) != number for user in node.users)
    )


def _is_call(node: Any) -> bool:
    return bool(node.op.startswith("call_"))


def _is_harmless(torch: Any, node: Any) -> bool:
    return not _is_call(node) or node.op == "call_module" or is_harmless(torch, node.target)


def _is_tensor(torch: Any, node: Any) -> bool:
    return isinstance(node.meta.get("example_value", node.meta.get("val")), torch.Tensor)


def _run_by(torch: Any, module: Any, part: Callable[[Any], Any]) -> Any:
    """Return a module that calls what is made of another, which returns a sequence."""
    output = next(node for node in module.graph.nodes if node.op == "output")
    alone = not isinstance(output.args[0], tuple | list)
    if alone:
        output.args = ((output.args[0],),)
        module.recompile()
    run = part(module)

    class CompiledPart(torch.nn.Module):  # type: ignore[misc]
        def forward(self, *inputs: Any) -> Any:
            found = run(*inputs)
            return found[0] if alone else found

    return CompiledPart()


# -- Whether weights are what they were -----------------------------------------------------------


class _OptimiserSteps:
    """The number of steps that optimisers have taken: fused ones change weights uncounted."""

    taken = 0


@cache
def _count_steps() -> None:
    """Count the steps of all optimisers from now on."""

    def step(*_: Any) -> None:
        _OptimiserSteps.taken += 1

    # torch.optim hides this module behind its class.
    optimisers = require("torch.optim.optimizer", "torch.compile")
    optimisers.register_optimizer_step_post_hook(step)


class Stamp:
    """What tells that weights have changed: which they are, their addresses, torch's counts, bytes.

    Another tensor may have the address and the count of one that is there no more.
    """

    def __init__(self, torch: Any, weights: Sequence[Any]) -> None:
        _count_steps()
        self._torch = torch
        self._living = [ref(one) for one in weights]
        self._places = [one.data_ptr() for one in weights]
        self._counts = [one._version for one in weights]
        self._sums = self._summed(weights)
        self._steps = _OptimiserSteps.taken

    def holds(self, weights: Sequence[Any]) -> bool:
        """Tell whether the weights are the same; their bytes are read where a step was taken."""
        # Hundreds of weights, at each call: lists of one thing each are made fastest.
        if not all(map(is_, [living() for living in self._living], weights)):
            return False
        if self._places != [one.data_ptr() for one in weights]:
            return False
        if self._counts != [one._version for one in weights]:
            return False
        if self._steps != _OptimiserSteps.taken:
            if self._sums != self._summed(weights):
                return False
            self._steps = _OptimiserSteps.taken
        return True

    def _summed(self, weights: Sequence[Any]) -> list[int]:
        return [zlib.crc32(bytes_of(self._torch, one)) for one in weights]


def bytes_of(torch: Any, tensor: Any) -> Any:
    """Return the bytes of a tensor in main memory, as an array."""
    return tensor.detach().resolve_neg().contiguous().reshape(-1).view(torch.uint8).numpy()
