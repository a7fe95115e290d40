"""Evolutionary search: annealed Metropolis-Hastings with a cost model."""

from schedlang.search.evolutionary.evolutionary import Evolutionary

__all__ = ["Evolutionary"]
