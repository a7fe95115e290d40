"""A call of ``tune`` or ``tune_network``: one task or several, one budget and one measurer."""

from schedlang.errors import InterruptedWarning
from schedlang.tuning.session.session import STORED, Call, Session
from schedlang.tuning.session.task_run import Slice, TaskRun

__all__ = [
    "Call",
    "InterruptedWarning",
    "STORED",
    "Session",
    "Slice",
    "TaskRun",
]
