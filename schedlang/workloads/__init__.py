"""Workloads: operators by name, and programs of the user."""

from schedlang.workloads.construct import (
    as_workload,
    from_module,
    from_prim_func,
    from_script,
    from_te,
)
from schedlang.workloads.operators import (
    C1D,
    C2D,
    C3D,
    CAP,
    CBR,
    DEP,
    DIL,
    GMM,
    GRP,
    NRM,
    SFM,
    T2D,
    TBG,
    get,
    matmul,
    names,
    quantized_matmul,
    standard,
)

conv1d, conv2d, conv3d, depthwise_conv2d = C1D, C2D, C3D, DEP
dilated_conv2d, group_conv2d, conv2d_transpose, capsule_conv2d = DIL, GRP, T2D, CAP
batch_matmul, norm, softmax = GMM, NRM, SFM
conv2d_bn_relu, transpose_batch_matmul = CBR, TBG

__all__ = [
    "C1D",
    "C2D",
    "C3D",
    "CAP",
    "CBR",
    "DEP",
    "DIL",
    "GMM",
    "GRP",
    "NRM",
    "SFM",
    "T2D",
    "TBG",
    "as_workload",
    "batch_matmul",
    "capsule_conv2d",
    "conv1d",
    "conv2d",
    "conv2d_bn_relu",
    "conv2d_transpose",
    "conv3d",
    "depthwise_conv2d",
    "dilated_conv2d",
    "from_module",
    "from_prim_func",
    "from_script",
    "from_te",
    "get",
    "group_conv2d",
    "matmul",
    "names",
    "norm",
    "quantized_matmul",
    "softmax",
    "standard",
    "transpose_batch_matmul",
]
