"""Convolutions, pooling, interpolation and folding of images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from tests.networks.operators.case import NAN, Case, image, over, spoilt

Functions = dict[str, Callable[..., Any]]
F = functional

POOLS_2D: Functions = {
    "max_pool2d": lambda x: F.max_pool2d(x, 2),
    "max_pool2d padded": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max_pool2d ceil": lambda x: F.max_pool2d(x, 2, 2, ceil_mode=True),
    "max_pool2d dilated": lambda x: F.max_pool2d(x, (2, 3), 1, (0, 1), dilation=2),
    "max_pool2d ceil padded": lambda x: F.max_pool2d(x, 3, (2, 3), 1, ceil_mode=True),
    "max_pool2d uneven": lambda x: F.max_pool2d(x, (1, 3), (2, 1)),
    "max_pool2d places": lambda x: F.max_pool2d(x, 2, return_indices=True),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x, (2, 3)),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 2),
    "avg_pool2d padded": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "avg_pool2d without padding": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "avg_pool2d ceil": lambda x: F.avg_pool2d(x, 2, ceil_mode=True),
    "avg_pool2d ceil padded": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
    "avg_pool2d ceil without padding": lambda x: F.avg_pool2d(x, 3, 2, 1, True, False),
    "avg_pool2d divisor": lambda x: F.avg_pool2d(x, 2, divisor_override=3),
    "adaptive_avg_pool2d 1": lambda x: F.adaptive_avg_pool2d(x, 1),
    "adaptive_avg_pool2d uneven": lambda x: F.adaptive_avg_pool2d(x, (3, 2)),
    "adaptive_avg_pool2d larger": lambda x: F.adaptive_avg_pool2d(x, 11),
    "adaptive_avg_pool2d None": lambda x: F.adaptive_avg_pool2d(x, (None, 3)),
    "lp_pool2d": lambda x: F.lp_pool2d(x, 2, 2),
}
POOLS_1D: Functions = {
    "max_pool1d": lambda x: F.max_pool1d(x, 3, 2, 1),
    "max_pool1d ceil dilated": lambda x: F.max_pool1d(x, 2, 3, 0, 2, True),
    "avg_pool1d": lambda x: F.avg_pool1d(x, 3, 2, 1, False, False),
    "avg_pool1d ceil": lambda x: F.avg_pool1d(x, 2, ceil_mode=True),
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x, 3),
    "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x, 3),
    "interpolate 1d": lambda x: F.interpolate(x, 11, mode="linear"),
    "interpolate 1d nearest": lambda x: F.interpolate(x, scale_factor=1.5),
    "interpolate 1d area": lambda x: F.interpolate(x, 4, mode="area"),
}
RESIZED_3D: Functions = {
    "interpolate 3d": lambda x: F.interpolate(x, (4, 5, 6), mode="trilinear"),
    "interpolate 3d nearest": lambda x: F.interpolate(x, (4, 5, 6)),
}
POOLS_3D: Functions = {
    "max_pool3d": lambda x: F.max_pool3d(x, 2, 1, 1),
    "max_pool3d ceil": lambda x: F.max_pool3d(x, (1, 2, 3), 2, ceil_mode=True),
    "avg_pool3d": lambda x: F.avg_pool3d(x, 2, 1, 1, False, False),
    "adaptive_avg_pool3d": lambda x: F.adaptive_avg_pool3d(x, (2, 3, 1)),
}
RESIZED: Functions = {
    "interpolate nearest": lambda x: F.interpolate(x, size=(9, 5)),
    "interpolate nearest 1.7": lambda x: F.interpolate(x, scale_factor=1.7),
    "interpolate nearest 2": lambda x: F.interpolate(x, scale_factor=2),
    "interpolate nearest half": lambda x: F.interpolate(x, scale_factor=0.5),
    "interpolate nearest-exact": lambda x: F.interpolate(x, size=(9, 5), mode="nearest-exact"),
    "interpolate bilinear 2": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "interpolate bilinear": lambda x: F.interpolate(x, size=(5, 9), mode="bilinear"),
    "interpolate bilinear 1.7": lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"),
    "interpolate aligned": lambda x: F.interpolate(
        x, size=(4, 9), mode="bilinear", align_corners=True
    ),
    "interpolate aligned to 1": lambda x: F.interpolate(
        x, size=(1, 3), mode="bilinear", align_corners=True
    ),
    "interpolate bicubic": lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"),
    "interpolate bicubic aligned": lambda x: F.interpolate(
        x, size=(9, 4), mode="bicubic", align_corners=True
    ),
    "interpolate antialiased": lambda x: F.interpolate(
        x, size=(3, 3), mode="bilinear", antialias=True
    ),
    "interpolate area": lambda x: F.interpolate(x, size=(3, 2), mode="area"),
    "interpolate scales": lambda x: F.interpolate(
        x, scale_factor=(1.5, 2.0), mode="bilinear", recompute_scale_factor=True
    ),
    "unfold": lambda x: F.unfold(x, (2, 3), dilation=(2, 1), padding=1, stride=(1, 2)),
    "fold of unfold": lambda x: F.fold(F.unfold(x, 2), x.shape[-2:], 2),
    "fold strided": lambda x: F.fold(
        F.unfold(x, 3, padding=1, stride=2), x.shape[-2:], 3, padding=1, stride=2
    ),
    "grid_sample": lambda x: F.grid_sample(x, x.new_ones(x.shape[0], 2, 2, 2) * 0.3),
    "grid_sample aligned": lambda x: F.grid_sample(
        x,
        torch.linspace(-1.2, 1.2, 8).reshape(1, 2, 2, 2).expand(x.shape[0], 2, 2, 2),
        align_corners=True,
        padding_mode="border",
    ),
    "grid_sample nearest": lambda x: F.grid_sample(
        x,
        torch.linspace(-1.2, 1.2, 8).reshape(1, 2, 2, 2).expand(x.shape[0], 2, 2, 2),
        mode="nearest",
        align_corners=False,
    ),
    "affine_grid": lambda x: (
        F.affine_grid(
            torch.tensor([[[1.0, 0.2, 0.1], [0.0, 0.9, -0.3]]]), [1, 1, 3, 4], align_corners=False
        )
        + x[0, 0, 0, 0]
    ),
    "local_response_norm": lambda x: F.local_response_norm(x, 3),
    "pad reflect 2d": lambda x: F.pad(x, (1, 2, 3, 0), mode="reflect"),
    "pad replicate 2d": lambda x: F.pad(x, (1, 2, 3, 0), mode="replicate"),
    "pad circular 2d": lambda x: F.pad(x, (1, 2, 3, 0), mode="circular"),
}


def _weighted() -> list[Case]:
    x1, x2, x3 = image(2, 4, 9), image(2, 4, 7, 6), image(1, 4, 4, 5, 5)

    def weight(*shape: int) -> torch.Tensor:
        return image(*shape, seed=5)

    def case(name: str, function: Callable[..., Any], *inputs: torch.Tensor) -> Case:
        return Case(name, function, inputs, error=4096)

    return [
        case("conv1d", lambda x, w: F.conv1d(x, w, None, 2, 3, 2), x1, weight(6, 4, 3)),
        case("conv1d same", lambda x, w: F.conv1d(x, w, padding="same"), x1, weight(6, 4, 4)),
        case("conv1d unbatched", lambda x, w: F.conv1d(x[0], w), x1, weight(6, 4, 3)),
        case("conv2d", lambda x, w, b: F.conv2d(x, w, b), x2, weight(6, 4, 3, 2), weight(6)),
        case(
            "conv2d uneven",
            lambda x, w: F.conv2d(x, w, None, (2, 1), (1, 2), (1, 2)),
            x2,
            weight(6, 4, 3, 2),
        ),
        case("conv2d groups", lambda x, w: F.conv2d(x, w, groups=2), x2, weight(6, 2, 3, 3)),
        case("conv2d depthwise", lambda x, w: F.conv2d(x, w, groups=4), x2, weight(8, 1, 3, 3)),
        case("conv2d valid", lambda x, w: F.conv2d(x, w, padding="valid"), x2, weight(6, 4, 3, 3)),
        case("conv2d same", lambda x, w: F.conv2d(x, w, padding="same"), x2, weight(6, 4, 2, 3)),
        case("conv2d unbatched", lambda x, w: F.conv2d(x[0], w), x2, weight(6, 4, 3, 2)),
        case("conv3d", lambda x, w: F.conv3d(x, w, None, 2, 1), x3, weight(3, 4, 2, 3, 3)),
        case("conv3d groups", lambda x, w: F.conv3d(x, w, groups=2), x3, weight(6, 2, 2, 2, 2)),
        case(
            "conv_transpose1d",
            lambda x, w: F.conv_transpose1d(x, w, None, 3, 1, 2, 1, 2),
            x1,
            weight(4, 5, 4),
        ),
        case(
            "conv_transpose2d",
            lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1),
            x2,
            weight(4, 3, 3, 3),
            weight(3),
        ),
        case(
            "conv_transpose2d groups",
            lambda x, w: F.conv_transpose2d(x, w, None, (2, 1), 0, 0, 2),
            x2,
            weight(4, 3, 3, 3),
        ),
        case(
            "conv_transpose2d dilated",
            lambda x, w: F.conv_transpose2d(x, w, None, 2, 1, 1, 1, 2),
            x2,
            weight(4, 3, 2, 3),
        ),
        case(
            "conv_transpose3d",
            lambda x, w: F.conv_transpose3d(x, w, None, 2),
            x3,
            weight(4, 2, 2, 2, 2),
        ),
        case(
            "conv2d of NaN",
            lambda x, w: torch.relu(F.conv2d(x, w)),
            spoilt(1, 4, 5, 5),
            weight(3, 4, 2, 2),
        ),
        case(
            "conv2d and relu6",
            lambda x, w: F.relu6(F.conv2d(x, w, padding=1)),
            spoilt(2, 4, 5, 5),
            weight(3, 4, 3, 3),
        ),
    ]


def _cases() -> list[Case]:
    plane = {
        "two batches": image(2, 2, 7, 6),
        "no batch": image(2, 7, 6),
        "spoilt": spoilt(1, 2, 6, 7),
        "float64": image(1, 2, 6, 7, dtype="float64"),
        "float16": image(1, 2, 6, 7, dtype="float16"),
    }
    # What becomes of infinite numbers is up to the order in which torch adds weighted ones.
    nan = torch.where(image(1, 2, 6, 7) > 2, NAN, image(1, 2, 6, 7))
    resized = {"two batches": plane["two batches"], "NaN": nan, "float64": plane["float64"]}
    lines = {"two batches": image(2, 3, 10), "NaN": torch.where(image(1, 3, 9) > 1, NAN, 1.0)}
    return [
        *over("", POOLS_2D, plane, error=256),
        *over(
            "",
            {key: POOLS_2D[key] for key in ("max_pool2d", "max_pool2d padded")},
            {"int64": image(1, 2, 6, 6, dtype="int64")},
        ),
        *over("", POOLS_1D, lines, error=256),
        *over("", POOLS_3D, {"float32": image(1, 2, 5, 6, 7), "spoilt": spoilt(2, 2, 4, 5, 5)}),
        *over("", RESIZED_3D, {"float32": image(1, 2, 5, 6, 7)}, error=256),
        *over("", RESIZED, resized, error=4096),
        *_weighted(),
    ]


CASES = _cases()
