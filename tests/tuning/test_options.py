"""The declaration of what ``tune``, ``tune_network``, ``tune_shapes`` and ``survey`` take."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import schedlang as sl
from schedlang.tuning.options import (
    REQUIRED,
    SURVEY,
    TUNE,
    TUNE_NETWORK,
    TUNE_SHAPES,
    Option,
    check_values,
    identifying,
)

DECLARED = [
    (sl.tune, TUNE),
    (sl.tune_network, TUNE_NETWORK),
    (sl.tune_shapes, TUNE_SHAPES),
    (sl.survey, SURVEY),
]
NAMES = ["tune", "tune_network", "tune_shapes", "survey"]


@pytest.mark.parametrize(("function", "options"), DECLARED, ids=NAMES)
def test_the_signature_is_the_declaration(
    function: Callable[..., Any], options: tuple[Option, ...]
) -> None:
    """Names, types and defaults, in their order; what is declared by name only is so."""
    parameters = inspect.signature(function).parameters.values()
    assert [(one.name, one.annotation, one.default) for one in parameters] == [
        (option.name, option.type, option.default) for option in options
    ]
    free = [one.name for one in parameters if one.kind is not one.KEYWORD_ONLY]
    assert free == [one.name for one in options if one.default is REQUIRED or one.name == "target"]


@pytest.mark.parametrize(("function", "options"), DECLARED, ids=NAMES)
def test_the_docstring_tells_every_option(
    function: Callable[..., Any], options: tuple[Option, ...]
) -> None:
    parameters, _, _ = (inspect.getdoc(function) or "").partition("\nReturns")
    lines = re.findall(r"^([a-z_]+(?:, [a-z_]+)*): ", parameters, re.M)
    told = [name for line in lines for name in line.split(", ")]
    assert told == [option.name for option in options]


def test_both_declare_what_they_share_alike() -> None:
    """Only what differs for a network: texts, the finals of a task, searches made for one, and
    tolerances by output."""
    network = {option.name: option for option in TUNE_NETWORK}
    for option in TUNE:
        if option.name in network:
            other = replace(network[option.name], help=option.help, more=option.more)
            if option.name in ("finals", "search", "tolerance"):
                other = replace(other, default=option.default, type=option.type, wrong=option.wrong)
            assert other == option


def defaults(options: tuple[Option, ...]) -> dict[str, Any]:
    return {one.name: "given" if one.default is REQUIRED else one.default for one in options}


def test_wrong_values_name_the_option_and_the_remedy() -> None:
    """In the order of the signature; None is right only where it is the default."""
    check_values(TUNE, defaults(TUNE))
    for options, more in ((TUNE, []), (TUNE_NETWORK, ["tolerance"])):
        checked = [one.name for one in options if one.wrong is not None]
        assert checked == ["trials", "seconds", "seed", "batch", "verify", *more, "finals"]
        for name in checked:
            wrong = {"C": 0.1} if name == "tolerance" else "no"
            with pytest.raises(ValueError, match=rf"^{name}={wrong!r}; (give|choose) "):
                check_values(options, defaults(options) | {name: wrong})
    with pytest.raises(ValueError, match="^trials=0; give a whole number, 1 or more$"):
        check_values(TUNE, defaults(TUNE) | {"finals": None, "trials": 0})
    with pytest.raises(ValueError, match="^finals=None; give a whole number, 0 or more$"):
        check_values(TUNE, defaults(TUNE) | {"finals": None})


def test_a_set_of_shapes_refuses_what_its_declaration_refuses() -> None:
    """With the name and the remedy, for what only ``tune_shapes`` takes."""
    own = ("trials", "share", "loss", "worst", "kernels")
    for option in TUNE_SHAPES:
        if option.name in own:
            for value in (-1, math.inf, "no"):
                assert option.refusal(value).startswith("give a ")
                with pytest.raises((ValueError, TypeError), match=option.name):
                    sl.tune_shapes(print, {"n": 4}, **{option.name: value})


def test_a_survey_refuses_wrong_values_before_it_runs_anything() -> None:
    for name in ("size", "seconds"):
        with pytest.raises(ValueError, match=f"^{name}=-1; give a "):
            sl.survey("no workload", **{name: -1})


def test_what_identifies_a_run_has_a_fixed_order() -> None:
    """Identities are stored: with another order, no run of a database would continue."""
    values: dict[str, Any] = {one.name: one.name for one in (*TUNE, *TUNE_NETWORK)}
    given = [(name, name) for name in ("inputs", "tolerance", "reference")]
    parts = ["space", "seed", "verify", "transfer", "search"]
    assert list(identifying(TUNE, values)) == [*parts, "measurer", *given]
    network = [*parts, "network", "measurer"]
    assert list(identifying(TUNE_NETWORK, values)) == [*network, ("tolerance", "tolerance")]
    for name, _ in given:
        del values[name]
    assert list(identifying(TUNE, values)) == [*parts, "measurer"]
    assert list(identifying(TUNE_NETWORK, values)) == network
    del values["seed"]
    with pytest.raises(KeyError, match="seed"):
        list(identifying(TUNE, values))
