"""Task schedulers: which task of a network gets the next slice of trials."""

from schedlang.search.tasks.objective import (
    Objective,
    ObjectiveError,
    Requirements,
    Speedup,
    TotalLatency,
    UserObjective,
)
from schedlang.search.tasks.progress import TaskProgress, network_latencies
from schedlang.search.tasks.registry import (
    OBJECTIVES,
    SCHEDULERS,
    make_objective,
    make_scheduler,
)
from schedlang.search.tasks.schedulers import (
    EqualSplit,
    GradientScheduler,
    RepresentativesFirst,
    RoundRobin,
    SchedulerBase,
    TaskScheduler,
    UserScheduler,
)

__all__ = [
    "OBJECTIVES",
    "SCHEDULERS",
    "EqualSplit",
    "GradientScheduler",
    "TotalLatency",
    "Objective",
    "ObjectiveError",
    "RepresentativesFirst",
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
