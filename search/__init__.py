"""Searches: strategies that ask for traces and are told their measurements."""

from schedlang.search.evolutionary import Evolutionary
from schedlang.search.ledger import Ledger, Told
from schedlang.search.named import SEARCHES, MakeStrategy, make_search
from schedlang.search.random import Random
from schedlang.search.strategy import Outcome, Proposal, Rejection, Strategy

__all__ = [
    "SEARCHES",
    "Evolutionary",
    "Ledger",
    "MakeStrategy",
    "Outcome",
    "Proposal",
    "Random",
    "Rejection",
    "Strategy",
    "Told",
    "make_search",
]
