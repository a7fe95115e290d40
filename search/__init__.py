"""Searches: strategies that ask for traces and are told their measurements."""

from typing import TYPE_CHECKING

from schedlang.search.base import ProposingStrategy, StrategyBase
from schedlang.search.coordinate_descent import CoordinateDescent
from schedlang.search.cost_model import CostModel, CostModelError, Example, RandomModel
from schedlang.search.evolutionary import Evolutionary
from schedlang.search.explore_exploit import SETTINGS, ExploreExploit
from schedlang.search.gradient_boosting import DecisionModel, GradientBoosting
from schedlang.search.proposals import Proposals, Told
from schedlang.search.searches import SEARCHES, Grid, MakeStrategy, Random, make_search
from schedlang.search.strategy import Outcome, Proposal, Recorded, Rejection, Strategy
from schedlang.search.tree_search import TreeSearch

if TYPE_CHECKING:
    from schedlang.search.cost_model import pretrain
else:
    from schedlang._lazy import attach

    __getattr__, __dir__ = attach(__name__)

__all__ = [
    "SEARCHES",
    "SETTINGS",
    "CoordinateDescent",
    "CostModel",
    "CostModelError",
    "DecisionModel",
    "Evolutionary",
    "Example",
    "ExploreExploit",
    "GradientBoosting",
    "Grid",
    "MakeStrategy",
    "Outcome",
    "Proposal",
    "Proposals",
    "ProposingStrategy",
    "Random",
    "RandomModel",
    "Recorded",
    "Rejection",
    "Strategy",
    "StrategyBase",
    "Told",
    "TreeSearch",
    "make_search",
    "pretrain",
]
