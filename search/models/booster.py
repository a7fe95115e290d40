"""LightGBM as the cost models use it: little data, one thread, the same model on every run."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from schedlang.search.models.cost_model import CostModelError

if TYPE_CHECKING:
    import lightgbm

Derivatives = Callable[[NDArray[Any]], tuple[NDArray[Any], NDArray[Any]]]
"""Scores of all rows -> first and second derivatives of the loss."""

_SETTINGS = {
    "objective": "none",
    "boost_from_average": False,
    # For tens of rows; LightGBM's own limits are meant for thousands.
    "min_data_in_leaf": 2,
    "min_data_in_bin": 1,
    "min_sum_hessian_in_leaf": 1e-3,
    "feature_pre_filter": False,
    # Otherwise it times both ways of counting and takes the faster, with other rounding.
    "force_col_wise": True,
    "deterministic": True,
    # A second thread gains nothing at this size.
    "num_threads": 1,
    "verbosity": -1,
}


def train_booster(
    rows: NDArray[Any], rounds: int, settings: Mapping[str, Any], derivatives: Derivatives
) -> lightgbm.Booster:
    """Train ``rounds`` trees, fewer when no split helps any more; scores start from 0."""
    import lightgbm  # here, as the workers that measure import this package too

    parameters = {**_SETTINGS, **settings}

    def loss(scores: NDArray[Any], _: lightgbm.Dataset) -> tuple[NDArray[Any], NDArray[Any]]:
        first, second = derivatives(scores)
        return first.astype(np.float32), second.astype(np.float32)

    booster = lightgbm.Booster(parameters, lightgbm.Dataset(rows, params=parameters))
    for _ in range(rounds):
        if booster.update(fobj=loss):
            break
    return booster


def write_booster(booster: lightgbm.Booster) -> str:
    """Write the model as LightGBM's text, after a line with its checksum."""
    text = str(booster.model_to_string())
    return f"{zlib.crc32(text.encode())}\n{text}"


def read_booster(text: object, columns: int) -> lightgbm.Booster:
    """Read what ``write_booster`` wrote; CostModelError for anything else.

    ``columns`` is the number of columns that the model must have.
    """
    checksum, _, content = str(text).partition("\n")
    # LightGBM ends the process at a text that is cut off or changed.
    if checksum != str(zlib.crc32(content.encode())):
        raise CostModelError("the trees of a stored model are broken: another checksum")
    import lightgbm

    booster = lightgbm.Booster(model_str=content)
    found = booster.num_feature()
    if found != columns:
        raise CostModelError(f"the trees of a stored model have {found} columns, not {columns}")
    return booster
