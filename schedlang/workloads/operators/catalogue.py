"""The operators: a short name as in MetaSchedule's appendix A.2, a long one, the element types."""

from __future__ import annotations

from schedlang.tvm.operators import convolution, low_bit, matrix, transposed
from schedlang.workloads.operators.registry import CONTRACTION_DTYPES, FLOAT_DTYPES, operator

C1D = operator("C1D", "conv1d", CONTRACTION_DTYPES)(convolution.C1D)
C2D = operator("C2D", "conv2d", CONTRACTION_DTYPES)(convolution.C2D)
C3D = operator("C3D", "conv3d", CONTRACTION_DTYPES)(convolution.C3D)
DEP = operator("DEP", "depthwise_conv2d", CONTRACTION_DTYPES)(convolution.DEP)
DIL = operator("DIL", "dilated_conv2d", CONTRACTION_DTYPES)(convolution.DIL)
GRP = operator("GRP", "group_conv2d", CONTRACTION_DTYPES)(convolution.GRP)
CBR = operator("CBR", "conv2d_bn_relu")(transposed.CBR)
TBG = operator("TBG", "transpose_batch_matmul", CONTRACTION_DTYPES)(matrix.TBG)
GMM = operator("GMM", "batch_matmul", CONTRACTION_DTYPES)(matrix.GMM)
matmul = operator("matmul", "matmul", CONTRACTION_DTYPES)(matrix.matmul)
quantized_matmul = operator(
    "quantized_matmul", "quantized_matmul", FLOAT_DTYPES, weights=low_bit.WEIGHTS
)(low_bit.quantized_matmul)
NRM = operator("NRM", "norm")(matrix.NRM)
SFM = operator("SFM", "softmax")(matrix.SFM)
T2D = operator("T2D", "conv2d_transpose", CONTRACTION_DTYPES)(transposed.T2D)
CAP = operator("CAP", "capsule_conv2d", CONTRACTION_DTYPES)(transposed.CAP)
