"""Distributions of sampling instructions, their contract and their stored form."""

from schedlang.distributions.base import (
    JSON,
    Decision,
    Distribution,
    Rng,
    distribution_from_json,
    distribution_to_json,
    register_distribution,
)
from schedlang.distributions.categorical import Categorical, ComputeLocation, IntRange
from schedlang.distributions.loop_tile import ImperfectTile, PartitionedTile, PerfectTile
from schedlang.distributions.register_tile import RegisterTile
from schedlang.distributions.subset import Permutation, Subset
from schedlang.distributions.thinned import Thinned

__all__ = [
    "JSON",
    "Categorical",
    "ComputeLocation",
    "Decision",
    "Distribution",
    "ImperfectTile",
    "IntRange",
    "PartitionedTile",
    "PerfectTile",
    "Permutation",
    "RegisterTile",
    "Rng",
    "Subset",
    "Thinned",
    "distribution_from_json",
    "distribution_to_json",
    "register_distribution",
]
