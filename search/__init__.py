"""Searches: strategies that ask for traces and are told their measurements."""

from schedlang.search.ledger import Ledger, Told
from schedlang.search.random import Random
from schedlang.search.strategy import Outcome, Proposal, Rejection, Strategy

__all__ = ["Ledger", "Outcome", "Proposal", "Random", "Rejection", "Strategy", "Told"]
