"""Put space, search, measurement and database together: ``tune``, ``best`` and ``apply``.

What the package exports is imported when it is first used: the command line reads ``options`` from
here, and answers ``--help`` without TVM.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedlang.errors import (
        CallbackWarning,
        HostWarning,
        InterruptedWarning,
        PackingWarning,
        UntunedWarning,
    )
    from schedlang.search import SEARCHES
    from schedlang.targets import Target, load, measurer
    from schedlang.tuning import stop
    from schedlang.tuning.explaining import Explanation, explain
    from schedlang.tuning.failures import FailureExplanation, explain_failure
    from schedlang.tuning.hosts import Hosts, RayExecutor
    from schedlang.tuning.kernels.defaults import default_schedule
    from schedlang.tuning.kernels.frozen import Frozen, freeze
    from schedlang.tuning.kernels.ladder import apply, best
    from schedlang.tuning.kernels.match import Match
    from schedlang.tuning.leaderboard import Trial
    from schedlang.tuning.options import BATCH
    from schedlang.tuning.result import TuneResult
    from schedlang.tuning.session.callbacks import Callback
    from schedlang.tuning.session.conclusion import read_result
    from schedlang.tuning.surveys import load_survey, survey
    from schedlang.tuning.tune_workload import default_space, tune
else:
    from schedlang._lazy import attach

    __getattr__, __dir__ = attach(__name__)

__all__ = [
    "BATCH",
    "SEARCHES",
    "Callback",
    "CallbackWarning",
    "Explanation",
    "FailureExplanation",
    "Frozen",
    "HostWarning",
    "Hosts",
    "InterruptedWarning",
    "Match",
    "Target",
    "Trial",
    "TuneResult",
    "PackingWarning",
    "RayExecutor",
    "UntunedWarning",
    "apply",
    "best",
    "default_schedule",
    "default_space",
    "explain",
    "explain_failure",
    "freeze",
    "load",
    "load_survey",
    "measurer",
    "read_result",
    "survey",
    "stop",
    "tune",
]
