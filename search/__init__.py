"""Searches: strategies that ask for traces and are told their measurements."""

from schedlang.search.random import Random
from schedlang.search.strategy import Outcome, Proposal, Rejection, Strategy

__all__ = ["Outcome", "Proposal", "Random", "Rejection", "Strategy"]
