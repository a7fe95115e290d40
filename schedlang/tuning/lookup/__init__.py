"""Looking up what a database has for a workload: ``best``, ``apply``, and what they say of it."""

from schedlang.tuning.lookup.frozen import Frozen, freeze
from schedlang.tuning.lookup.look_up import (
    LookUp,
    PackingWarning,
    UntunedWarning,
    apply,
    best,
    was_tuned,
)
from schedlang.tuning.lookup.match import UNVERIFIED, Match
from schedlang.tuning.lookup.relatives import recorded_elsewhere

__all__ = [
    "UNVERIFIED",
    "Frozen",
    "LookUp",
    "Match",
    "PackingWarning",
    "UntunedWarning",
    "apply",
    "best",
    "freeze",
    "recorded_elsewhere",
    "was_tuned",
]
