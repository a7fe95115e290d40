"""All public names of ``schedlang.tuning``; the package imports this file when one is asked for."""

from schedlang.search import SEARCHES
from schedlang.targets import Target, load, measurer
from schedlang.tuning import stop
from schedlang.tuning.callbacks import Callback, CallbackWarning
from schedlang.tuning.defaults import default_schedule
from schedlang.tuning.explaining import Explanation, explain
from schedlang.tuning.failures import FailureExplanation, explain_failure
from schedlang.tuning.hosts import Hosts, HostWarning, RayExecutor
from schedlang.tuning.lookup import (
    Frozen,
    Match,
    PackingWarning,
    UntunedWarning,
    apply,
    best,
    freeze,
)
from schedlang.tuning.options import BATCH
from schedlang.tuning.reading import read_result
from schedlang.tuning.result import TuneResult
from schedlang.tuning.session import InterruptedWarning
from schedlang.tuning.surveys.survey_workload import load_survey, survey
from schedlang.tuning.trial import Trial
from schedlang.tuning.tune_workload import default_space, tune

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
