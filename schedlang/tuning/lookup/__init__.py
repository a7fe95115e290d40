"""Looking up what a database has for a workload: ``best``, ``apply``, and what they say of it."""

from schedlang.tuning.lookup.frozen import Frozen, freeze
from schedlang.tuning.lookup.look_up import (
    UNVERIFIED,
    PackingWarning,
    UntunedWarning,
    apply,
    best,
    find,
    opened_for_reading,
    was_tuned,
)
from schedlang.tuning.lookup.match import Match

__all__ = [
    "UNVERIFIED",
    "Frozen",
    "Match",
    "PackingWarning",
    "UntunedWarning",
    "apply",
    "best",
    "find",
    "freeze",
    "opened_for_reading",
    "was_tuned",
]
