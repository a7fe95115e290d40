"""``explain``: in words, what made the winner of a run fast, from the recorded data only."""

from schedlang.tuning.explaining.explain import explain
from schedlang.tuning.explaining.explanation import DecisionEffect, Explanation

__all__ = ["DecisionEffect", "Explanation", "explain"]
