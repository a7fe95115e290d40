"""Storing distributions by kind, and what a user's own one needs for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from schedlang.distributions import (
    Distribution,
    PerfectTile,
    Rng,
    distribution_from_json,
    distribution_to_json,
    register_distribution,
)
from schedlang.errors import DistributionError


class Coin(Distribution):
    """Enough to be a distribution; the tests below give it fields and kinds."""

    def sample(self, rng: Rng) -> int:
        return int(rng.random() * 2)

    def log_prob(self, d: object) -> float:
        return -0.6931471805599453 if type(d) is int and d in (0, 1) else float("-inf")

    def support(self) -> Iterator[int]:
        return iter((0, 1))


def test_stored_form() -> None:
    tile = PerfectTile(96, 3, max_innermost_factor=64, weights={-1: {16: 4.0}})
    assert distribution_to_json(tile) == {
        "kind": "perfect_tile",
        "extent": 96,
        "n": 3,
        "max_innermost_factor": 64,
        "weights": [[2, [[16, 4.0]]]],
    }


def test_fields_of_all_plain_types_round_trip() -> None:
    @register_distribution
    @dataclass(frozen=True)
    class Plain(Coin):
        kind: ClassVar[str] = "test.plain"
        a: int
        b: float
        c: str
        d: bool
        e: tuple[tuple[int, str], ...]
        f: int | None = None

    value = Plain(1, 2.5, "x", True, ((1, "y"), (2, "z")))
    stored = distribution_to_json(value)
    assert distribution_from_json(stored) == value
    assert distribution_from_json({k: v for k, v in stored.items() if k != "f"}) == value
    for name, wrong in [("a", True), ("b", "2"), ("c", 1), ("d", 1), ("e", [[1]]), ("f", 1.5)]:
        with pytest.raises(DistributionError, match=rf"Plain\.{name}: .* is not of type"):
            distribution_from_json({**stored, name: wrong})


def test_constructor_errors_become_distribution_errors() -> None:
    @register_distribution
    @dataclass(frozen=True)
    class Picky(Coin):
        kind: ClassVar[str] = "test.picky"
        a: int

        def __post_init__(self) -> None:
            raise ValueError("never right")

    with pytest.raises(DistributionError, match="Picky: never right"):
        distribution_from_json({"kind": "test.picky", "a": 1})


def test_same_class_again_replaces_and_another_is_refused() -> None:
    def define(name: str) -> type[Distribution]:
        cls = type(name, (Coin,), {"kind": "test.twice", "__module__": __name__})
        return dataclass(frozen=True)(cls)

    register_distribution(define("First"))
    again = register_distribution(define("First"))
    assert type(distribution_from_json({"kind": "test.twice"})) is again
    with pytest.raises(DistributionError, match=r"Other.kind='test.twice' is taken by .*First"):
        register_distribution(define("Other"))


def test_kind_is_required() -> None:
    with pytest.raises(DistributionError, match="give the class a name, such as kind"):
        register_distribution(Coin)
    with pytest.raises(DistributionError, match="is not a subclass of Distribution"):
        register_distribution(int)  # type: ignore[type-var]


def test_unregistered_distributions_are_not_stored() -> None:
    with pytest.raises(DistributionError, match="Coin is not registered; decorate the class"):
        distribution_to_json(Coin())


def test_what_has_no_default_json_says_what_to_write() -> None:
    @register_distribution
    class NoFields(Coin):
        kind: ClassVar[str] = "test.no_fields"

    @register_distribution
    @dataclass(frozen=True)
    class BadField(Coin):
        kind: ClassVar[str] = "test.bad_field"
        a: Any

    with pytest.raises(DistributionError, match="NoFields: not a dataclass, .* write both"):
        distribution_to_json(NoFields())
    with pytest.raises(DistributionError, match=r"BadField.a: .* write to_json and from_json"):
        distribution_to_json(BadField(object()))


def test_required_methods_are_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Distribution()  # type: ignore[abstract]


def test_defaults_follow_the_support() -> None:
    coin = Coin()
    assert coin.size() == 2
    assert coin.neighbours(0) == (1,)
    assert coin.neighbours(1) == (0,)
    assert coin.origin() == 0
    assert coin.repair("x") == 0
    assert coin.outputs(1) == 1
    assert coin.n_outputs is None
