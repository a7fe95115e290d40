"""Task schedulers: which task of a network gets the next slice of trials."""

from schedlang.search.tasks.equal_split import EqualSplit
from schedlang.search.tasks.estimates import network_latencies
from schedlang.search.tasks.gradient import GradientScheduler
from schedlang.search.tasks.latency import Latency
from schedlang.search.tasks.objective import Objective, ObjectiveError
from schedlang.search.tasks.progress import TaskProgress
from schedlang.search.tasks.registry import (
    OBJECTIVES,
    SCHEDULERS,
    make_objective,
    make_scheduler,
)
from schedlang.search.tasks.requirements import Requirements
from schedlang.search.tasks.round_robin import RoundRobin
from schedlang.search.tasks.scheduler import SchedulerBase, TaskScheduler
from schedlang.search.tasks.speedup import Speedup
from schedlang.search.tasks.user_objective import UserObjective
from schedlang.search.tasks.user_scheduler import UserScheduler

__all__ = [
    "OBJECTIVES",
    "SCHEDULERS",
    "EqualSplit",
    "GradientScheduler",
    "Latency",
    "Objective",
    "ObjectiveError",
    "Requirements",
    "RoundRobin",
    "SchedulerBase",
    "Speedup",
    "TaskProgress",
    "TaskScheduler",
    "UserObjective",
    "UserScheduler",
    "make_objective",
    "make_scheduler",
    "network_latencies",
]
