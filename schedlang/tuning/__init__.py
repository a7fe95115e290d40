"""Put space, search, measurement and database together: ``tune``, ``best`` and ``apply``."""

from schedlang.search import SEARCHES
from schedlang.targets import Target, load
from schedlang.tuning import stop
from schedlang.tuning.callbacks import Callback, CallbackWarning
from schedlang.tuning.defaults import default_schedule
from schedlang.tuning.explaining import Explanation, explain
from schedlang.tuning.failures import FailureExplanation, explain_failure
from schedlang.tuning.lookup import PackingWarning, UntunedWarning, apply, best
from schedlang.tuning.match import Match
from schedlang.tuning.reading import read_result
from schedlang.tuning.result import TuneResult
from schedlang.tuning.trial import Trial
from schedlang.tuning.tune import BATCH, default_space, tune
from schedlang.tuning.unfinished import InterruptedWarning

__all__ = [
    "BATCH",
    "SEARCHES",
    "Callback",
    "CallbackWarning",
    "Explanation",
    "FailureExplanation",
    "InterruptedWarning",
    "Match",
    "Target",
    "Trial",
    "TuneResult",
    "PackingWarning",
    "UntunedWarning",
    "apply",
    "best",
    "default_schedule",
    "default_space",
    "explain",
    "explain_failure",
    "load",
    "read_result",
    "stop",
    "tune",
]
