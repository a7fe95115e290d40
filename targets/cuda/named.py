"""Models of GPUs, with the numbers of NVIDIA's data sheets."""

from __future__ import annotations

import re
from dataclasses import dataclass

from schedlang.printed import nearest
from schedlang.targets.cuda.architectures import ARCHES, architecture_of

DEVICE = "cuda"
"""The name that means the device of this machine."""
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Model:
    """A GPU model.

    Attributes
    ----------
    name: short name: ``"h100"``.
    arch: the architecture with all that it has: ``"sm_90a"``.
    sms: number of multiprocessors.
    l2_bytes: size of the second-level cache.
    memory_bytes_per_second: bandwidth of its memory.
    peak_flops: float32 operations a second.
    peak_matrix_flops: float16 operations a second of its matrix units, dense.
    device_names: how the driver calls it.
    """

    name: str
    arch: str
    sms: int
    l2_bytes: int
    memory_bytes_per_second: float
    peak_flops: float
    peak_matrix_flops: float
    device_names: tuple[str, ...]


def _model(
    name: str,
    arch: str,
    sms: int,
    l2_mib: int,
    gigabytes: float,
    teraflops: tuple[float, float],
    *device_names: str,
) -> Model:
    peak, matrix = (1e12 * number for number in teraflops)
    return Model(name, arch, sms, l2_mib * _MIB, 1e9 * gigabytes, peak, matrix, device_names)


_TABLE = (
    _model(
        "v100", "sm_70", 80, 6, 900, (15.7, 125), "Tesla V100-SXM2-16GB", "Tesla V100-SXM2-32GB"
    ),
    _model("t4", "sm_75", 40, 4, 320, (8.1, 65), "Tesla T4"),
    _model("a100", "sm_80", 108, 40, 1555, (19.5, 312), "NVIDIA A100-SXM4-40GB"),
    _model("a100-80gb", "sm_80", 108, 40, 2039, (19.5, 312), "NVIDIA A100-SXM4-80GB"),
    _model("a10", "sm_86", 72, 6, 600, (31.2, 125), "NVIDIA A10"),
    _model("rtx-3090", "sm_86", 82, 6, 936, (35.6, 142), "NVIDIA GeForce RTX 3090"),
    _model("orin", "sm_87", 16, 4, 204.8, (5.3, 42.6), "Orin"),
    _model("l4", "sm_89", 58, 48, 300, (30.3, 121), "NVIDIA L4"),
    _model("l40s", "sm_89", 142, 96, 864, (91.6, 362), "NVIDIA L40S"),
    _model("rtx-4090", "sm_89", 128, 72, 1008, (82.6, 330.3), "NVIDIA GeForce RTX 4090"),
    _model("h100", "sm_90a", 132, 50, 3352, (66.9, 989.4), "NVIDIA H100 80GB HBM3"),
    _model("h200", "sm_90a", 132, 60, 4800, (66.9, 989.4), "NVIDIA H200"),
    _model("b200", "sm_100a", 148, 126, 8000, (80, 2250), "NVIDIA B200"),
    _model("rtx-5090", "sm_120a", 170, 96, 1792, (104.8, 419), "NVIDIA GeForce RTX 5090"),
    _model("gb10", "sm_121a", 48, 24, 273, (29.7, 119), "NVIDIA GB10"),
)
MODELS = {entry.name: entry for entry in _TABLE}
_OWN_ARCHES = tuple(dict.fromkeys(entry.arch for entry in _TABLE if entry.arch not in ARCHES))
NAMES = (
    *(f"cuda/{arch}" for arch in (*ARCHES, *_OWN_ARCHES)),
    *(f"nvidia/{name}" for name in MODELS),
)
"""The names of targets besides ``"cuda"``: architectures and models."""


def arch_hint(arch: object) -> str:
    """Say what an unknown architecture probably means; empty if that is anyone's guess.

    ``"h100"`` and ``"h1000"`` are near a model, ``90``, ``"9.0"`` and ``"compute_90"`` an
    architecture.
    """
    text = str(arch).lower()
    if hint := nearest(text, MODELS, lambda model: f"the model, Target({model!r})"):
        return hint
    number = f"sm_{re.sub('[^0-9]', '', text)}"
    return f"; did you mean arch={number!r}?" if number in ARCHES else ""


def usual_model(arch: str) -> Model:
    """Return the model whose numbers are assumed where only the architecture is known."""
    return MODELS[architecture_of(arch).model]


def model_name(device_name: str) -> str:
    """Return the short name of what the driver calls ``device_name``.

    A model without an entry gets the driver's name in lower case: ``"nvidia-h100-pcie"``.
    """
    for entry in _TABLE:
        if device_name in entry.device_names:
            return entry.name
    return re.sub(r"[^a-z0-9]+", "-", device_name.lower()).strip("-") or "unknown"
