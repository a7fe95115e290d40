"""``explain_failure``: the first instruction of a trace after which a program fails."""

from schedlang.tuning.failures.explain_failure import explain_failure
from schedlang.tuning.failures.explanation import FailureExplanation, Prefix, Suspect

__all__ = ["FailureExplanation", "Prefix", "Suspect", "explain_failure"]
