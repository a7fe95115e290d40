"""Torch operators that TVM's front end converts wrongly, imprecisely or not at all.

TVM 0.27 computes products of float64 in float32, ignores ``alpha`` of ``add`` and ``sub`` and the
scales of ``elu``, casts the scalar of ``integers * 0.5`` to an integer, does not drop values in
training, reads foreign memory at negative indices and where several tensors index different axes,
loses NaN in divisions that round, rounds the places of nearest neighbours, and reads the arguments
of ``batch_norm`` at the places of another operator.
"""

from __future__ import annotations

from schedlang.tvm.relax.torch.arguments import Converter
from schedlang.tvm.relax.torch.arithmetic import ARITHMETIC
from schedlang.tvm.relax.torch.attention import ATTENTION
from schedlang.tvm.relax.torch.convolution import CONVOLUTIONS
from schedlang.tvm.relax.torch.division import DIVISION
from schedlang.tvm.relax.torch.elementwise import ELEMENTWISE
from schedlang.tvm.relax.torch.indexing import INDEXING
from schedlang.tvm.relax.torch.normalisation import NORMALISATION
from schedlang.tvm.relax.torch.reductions import REDUCTIONS
from schedlang.tvm.relax.torch.resizing import RESIZING

OPERATORS: dict[str, Converter] = {
    **ARITHMETIC,
    **ATTENTION,
    **CONVOLUTIONS,
    **DIVISION,
    **ELEMENTWISE,
    **INDEXING,
    **NORMALISATION,
    **REDUCTIONS,
    **RESIZING,
}
"""Our converters by the name of the operator's overload; they replace TVM's of these names."""
