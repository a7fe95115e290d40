"""Wrong softmax and normalisation: what a shift or a small constant hides."""

from __future__ import annotations

from tests.trust.attack import Subject, body, edit, right, tensors, wrong

_LOWEST = "T.float32(-3.4e38)"
_SOFTMAX = f"""
top = T.sblock_alloc_buffer((24,), "float32")
total = T.sblock_alloc_buffer((24,), "float32")
for i, k in T.grid(24, 24):
    with T.sblock("top"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            top[vi] = {_LOWEST}
        top[vi] = T.max(top[vi], x[vi, vk])
for i, k in T.grid(24, 24):
    with T.sblock("total"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            total[vi] = T.float32(0)
        total[vi] = total[vi] + T.exp(x[vi, vk] - top[vi])
for i, j in T.grid(24, 24):
    with T.sblock("y"):
        vi, vj = T.axis.remap("SS", [i, j])
        y[vi, vj] = T.exp(x[vi, vj] - top[vi]) / total[vi]
"""
_ONLINE = f"""
top = T.sblock_alloc_buffer((24,), "float32")
total = T.sblock_alloc_buffer((24,), "float32")
for i in range(24):
    top[i] = {_LOWEST}
    total[i] = T.float32(0)
    for k in range(24):
        if x[i, k] > top[i]:
            total[i] = total[i] * T.exp(top[i] - x[i, k])
            top[i] = x[i, k]
        total[i] = total[i] + T.exp(x[i, k] - top[i])
    for j in range(24):
        y[i, j] = T.exp(x[i, j] - top[i]) / total[i]
"""
_IN_PLACE = f"""
top = T.sblock_alloc_buffer((1,), "float32")
total = T.sblock_alloc_buffer((1,), "float32")
for i in range(24):
    top[0] = {_LOWEST}
    total[0] = T.float32(0)
    for k in range(24):
        top[0] = T.max(top[0], x[i, 23 - k])
    for k in range(24):
        y[i, k] = T.exp(x[i, k] - top[0])
        total[0] = total[0] + y[i, k]
    for k in range(24):
        y[i, k] = y[i, k] * (T.float32(1) / total[0])
"""

SOFTMAX = Subject(
    "softmax",
    tensors(x=("float32", 24, 24), y=("float32", 24, 24)),
    _SOFTMAX,
    (
        wrong("softmax without its maximum", "rare values", edit(" - top[vi]", "")),
        wrong(
            "minimum for the maximum",
            "rare values",
            edit(_LOWEST, "T.float32(3.4e38)"),
            edit("T.max(", "T.min("),
        ),
        wrong(
            "maximum of the column",
            "rare values",
            edit("T.max(top[vi], x[vi, vk])", "T.max(top[vi], x[vk, vi])"),
        ),
        wrong("maximum starts at zero", "rare values", edit(_LOWEST, "T.float32(0)")),
        wrong(
            "maximum of the first half",
            "rare values",
            edit("T.max(top[vi], x[vi, vk])", "T.max(top[vi], x[vi, vk // 2])"),
        ),
        wrong(
            "sum without its last term",
            "edges",
            edit(
                "T.exp(x[vi, vk] - top[vi])",
                "T.if_then_else(vk < 23, T.exp(x[vi, vk] - top[vi]), T.float32(0))",
            ),
        ),
        wrong(
            "sum of the column",
            "layout",
            edit("T.exp(x[vi, vk] - top[vi])", "T.exp(x[vk, vi] - top[vi])"),
        ),
        wrong(
            "sum starts at one",
            "initial values",
            edit("total[vi] = T.float32(0)", "total[vi] = T.float32(1)"),
        ),
        wrong(
            "total of the neighbouring row", "edges", edit("/ total[vi]", "/ total[(vi + 1) % 24]")
        ),
        wrong("not divided", "arithmetic", edit(" / total[vi]", "")),
        right("online softmax", body(_ONLINE)),
        right("softmax in the output's memory", body(_IN_PLACE)),
        right(
            "powers of two",
            edit(
                "T.exp(x[vi, vk] - top[vi])",
                "T.exp2((x[vi, vk] - top[vi]) * T.float32(1.4426950408889634))",
            ),
        ),
        right(
            "quotient of powers",
            edit(
                "T.exp(x[vi, vj] - top[vi]) / total[vi]",
                "T.exp(x[vi, vj] - top[vi]) * (T.float32(1) / total[vi])",
            ),
        ),
    ),
)

_LAYER_NORM = """
mean = T.sblock_alloc_buffer((20,), "float32")
variance = T.sblock_alloc_buffer((20,), "float32")
for i, k in T.grid(20, 64):
    with T.sblock("mean"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            mean[vi] = T.float32(0)
        mean[vi] = mean[vi] + x[vi, vk] * T.float32(0.015625)
for i, k in T.grid(20, 64):
    with T.sblock("variance"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            variance[vi] = T.float32(0)
        variance[vi] = (
            variance[vi]
            + (x[vi, vk] - mean[vi]) * (x[vi, vk] - mean[vi]) * T.float32(0.015625)
        )
for i, j in T.grid(20, 64):
    with T.sblock("y"):
        vi, vj = T.axis.remap("SS", [i, j])
        y[vi, vj] = (
            (x[vi, vj] - mean[vi]) / T.sqrt(variance[vi] + T.float32(1e-5)) * scale[vj] + shift[vj]
        )
"""
_EPSILON = "T.sqrt(variance[vi] + T.float32(1e-5))"

LAYER_NORM = Subject(
    "layer normalisation",
    tensors(
        x=("float32", 20, 64), scale=("float32", 64), shift=("float32", 64), y=("float32", 20, 64)
    ),
    _LAYER_NORM,
    (
        wrong("epsilon dropped", "rare values", edit(_EPSILON, "T.sqrt(variance[vi])")),
        wrong(
            "epsilon outside the root",
            "rare values",
            edit(_EPSILON, "(T.sqrt(variance[vi]) + T.float32(1e-5))"),
        ),
        wrong("another epsilon", "rare values", edit("1e-5", "1e-6")),
        wrong(
            "divided by one less",
            "arithmetic",
            edit(
                "(x[vi, vk] - mean[vi]) * T.float32(0.015625)",
                "(x[vi, vk] - mean[vi]) * T.float32(0.015873016)",
            ),
        ),
        wrong(
            "mean not subtracted",
            "arithmetic",
            edit("(x[vi, vj] - mean[vi]) /", "x[vi, vj] /"),
        ),
        wrong(
            "second moment for the variance",
            "arithmetic",
            edit("(x[vi, vk] - mean[vi]) * (x[vi, vk] - mean[vi])", "x[vi, vk] * x[vi, vk]"),
        ),
        wrong("scale dropped", "arithmetic", edit(" * scale[vj]", "")),
        wrong("shift dropped", "arithmetic", edit(" + shift[vj]", "")),
        wrong("scale by the row", "layout", edit("scale[vj]", "scale[vi]")),
        right("inverse square root", edit(f"/ {_EPSILON}", f"* (T.float32(1) / {_EPSILON})")),
        right("scale first", edit(f"/ {_EPSILON} * scale[vj]", f"* (scale[vj] / {_EPSILON})")),
    ),
)
