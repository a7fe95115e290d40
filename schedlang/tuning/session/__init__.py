"""A call of ``tune`` or ``tune_network``: one task or several, one budget and one measurer."""

from schedlang.errors import InterruptedWarning
from schedlang.tuning.session.call import Call, Unfinished
from schedlang.tuning.session.task_run import Slice, TaskRun, TunedTask

__all__ = [
    "Call",
    "InterruptedWarning",
    "Slice",
    "TunedTask",
    "TaskRun",
    "Unfinished",
]
