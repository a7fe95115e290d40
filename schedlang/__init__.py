"""schedlang: an embedded probabilistic language for tensor-program schedules, on Apache TVM."""

from schedlang import workloads
from schedlang.database import Database, Record, open_database
from schedlang.distributions import (
    Categorical,
    ComputeLocation,
    Distribution,
    ImperfectTile,
    IntRange,
    PartitionedTile,
    PerfectTile,
    Permutation,
    Subset,
    distribution_from_json,
    distribution_to_json,
)
from schedlang.distributions import register_distribution as distribution
from schedlang.errors import (
    DatabaseError,
    DistributionError,
    InstructionError,
    InvalidTrace,
    NotApplicable,
    SchedlangError,
    SpaceError,
    TargetError,
    TraceFormatError,
    WorkloadError,
)
from schedlang.expressions import IndexMap, IntExpr, IntRV, maximum, minimum
from schedlang.handles import BlockRV, LoopRV
from schedlang.kinds import instruction, sampling_instruction
from schedlang.measurement import Candidate, Measurement, Measurer, Status
from schedlang.module import Module, module
from schedlang.replay import assess, replay, resample
from schedlang.result import TuneResult
from schedlang.schedule import Schedule
from schedlang.space import Sketch, Space, Stochastic
from schedlang.trace import Trace
from schedlang.tune import Match, Target, UntunedWarning, apply, best, default_space, tune
from schedlang.workload import Workload

__version__ = "0.1.0"

__all__ = [
    "BlockRV",
    "Candidate",
    "Categorical",
    "ComputeLocation",
    "Database",
    "DatabaseError",
    "Distribution",
    "DistributionError",
    "ImperfectTile",
    "IndexMap",
    "InstructionError",
    "IntExpr",
    "IntRV",
    "IntRange",
    "InvalidTrace",
    "LoopRV",
    "Match",
    "Measurement",
    "Measurer",
    "Module",
    "NotApplicable",
    "PartitionedTile",
    "PerfectTile",
    "Permutation",
    "Record",
    "SchedlangError",
    "Schedule",
    "Sketch",
    "Space",
    "SpaceError",
    "Status",
    "Stochastic",
    "Subset",
    "Target",
    "TargetError",
    "Trace",
    "TraceFormatError",
    "TuneResult",
    "UntunedWarning",
    "Workload",
    "WorkloadError",
    "apply",
    "assess",
    "best",
    "default_space",
    "distribution",
    "distribution_from_json",
    "distribution_to_json",
    "instruction",
    "maximum",
    "minimum",
    "module",
    "open_database",
    "replay",
    "resample",
    "sampling_instruction",
    "tune",
    "workloads",
]
