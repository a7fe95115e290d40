"""Checks of a user's cost model: its members before it is used, its scores at each call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from schedlang.measurement.protocol import check_method, check_values
from schedlang.search.models.cost_model import CostModel, CostModelError, Scores
from schedlang.tvm.analysis.statement_features import Features


def check_cost_model(model: object) -> None:
    """TypeError for a member that a cost model lacks or that cannot be used; nothing is asked."""
    if isinstance(model, type):
        raise TypeError(f"cost_model={model.__name__} is a class; give an instance of it")
    what = f"cost_model: {type(model).__name__}"
    for name in ("name", "trained"):
        if not hasattr(model, name):
            raise TypeError(f"{what} has no {name!r}; see schedlang.search.CostModel")
    check_values(what, model, "name", "trained")
    check_method(what, model, "update", "examples")
    check_method(what, model, "predict", "features")
    check_method(what, model, "save")
    check_method(what, model, "load", "text")


def checked_scores(model: CostModel, features: Sequence[Features]) -> Scores:
    """Return the scores of programs, (programs,); CostModelError where they are none.

    That is where they are no numbers, not one for each program, or not finite.
    """
    found = model.predict(features)
    what = f"cost_model: {type(model).__name__}.predict"
    try:
        scores = np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError):
        scores = None
    if scores is None or (found is None):
        raise CostModelError(
            f"{what} returned {type(found).__name__}, which is no array of numbers; return one "
            "score for each program, higher is faster"
        )
    if scores.shape != (len(features),):
        raise CostModelError(
            f"{what} returned scores of shape {scores.shape} for {len(features)} programs; return "
            f"one score for each, shape ({len(features)},)"
        )
    wrong = np.flatnonzero(~np.isfinite(scores))
    if len(wrong):
        raise CostModelError(
            f"{what} returned {scores[wrong[0]]} for program {wrong[0]} of {len(features)}; scores "
            "are finite, from 0 (slow or failing) to 1"
        )
    return scores


def predict_known(
    model: CostModel, features: Sequence[Features | None], unknown: float
) -> list[float]:
    """Score programs in one call of the model; ``unknown`` for those without features."""
    known = [table for table in features if table is not None]
    found = iter(checked_scores(model, known) if known else ())
    return [unknown if table is None else float(next(found)) for table in features]
