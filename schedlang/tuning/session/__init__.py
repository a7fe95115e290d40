"""A call of ``tune`` or ``tune_network``: one task or several, one budget and one measurer."""

from schedlang.tuning.session.call import Call
from schedlang.tuning.session.measuring import Measuring
from schedlang.tuning.session.task_run import Slice, Task, TaskRun
from schedlang.tuning.session.unfinished import InterruptedWarning, Unfinished

__all__ = [
    "Call",
    "InterruptedWarning",
    "Measuring",
    "Slice",
    "Task",
    "TaskRun",
    "Unfinished",
]
