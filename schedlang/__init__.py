"""schedlang: an embedded probabilistic language for tensor-program schedules, on Apache TVM."""

import importlib as _importlib
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING as _TYPE_CHECKING

from schedlang import workloads
from schedlang._moved import keep_old_paths as _keep_old_paths
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
    MissingExtraError,
    NetworkError,
    NoLatencyError,
    NotApplicable,
    PartialTraceWarning,
    SchedlangError,
    SpaceError,
    TargetError,
    TraceFormatError,
    UnreadableWarning,
    UnsupportedOperatorError,
    WorkloadError,
)
from schedlang.expressions import IndexMap, IntExpr, IntRV, maximum, minimum
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.macros import instruction, sampling_instruction
from schedlang.language.replay import assess, replay, resample
from schedlang.language.schedule import Schedule, Trace
from schedlang.measurement import Candidate, Measurement, Measurer, Status
from schedlang.networks import (
    CompiledNetwork,
    Network,
    NetworkResult,
    compile_network,
    import_network,
    tune_network,
)
from schedlang.spaces.module import Module, module
from schedlang.spaces.sketch import FailedPathWarning, Sketch
from schedlang.spaces.space import Space
from schedlang.spaces.stochastic import Stochastic
from schedlang.tuning import (
    Callback,
    CallbackWarning,
    Explanation,
    InterruptedWarning,
    Match,
    PackingWarning,
    Target,
    Trial,
    TuneResult,
    UntunedWarning,
    apply,
    best,
    default_schedule,
    default_space,
    explain,
    load,
    stop,
    tune,
)
from schedlang.workloads.workload import Workload

__version__ = "0.1.0"

__all__ = [
    "BlockRV",
    "Callback",
    "CallbackWarning",
    "Candidate",
    "Categorical",
    "CompiledNetwork",
    "ComputeLocation",
    "Database",
    "DatabaseError",
    "Distribution",
    "DistributionError",
    "Explanation",
    "FailedPathWarning",
    "ImperfectTile",
    "IndexMap",
    "InstructionError",
    "IntExpr",
    "IntRV",
    "IntRange",
    "InterruptedWarning",
    "InvalidTrace",
    "LoopRV",
    "Match",
    "Measurement",
    "Measurer",
    "MissingExtraError",
    "Module",
    "Network",
    "NetworkError",
    "NetworkResult",
    "NoLatencyError",
    "NotApplicable",
    "PackingWarning",
    "PartialTraceWarning",
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
    "Trial",
    "TuneResult",
    "UnreadableWarning",
    "UnsupportedOperatorError",
    "UntunedWarning",
    "Workload",
    "WorkloadError",
    "apply",
    "assess",
    "best",
    "compile_network",
    "default_schedule",
    "default_space",
    "distribution",
    "distribution_from_json",
    "distribution_to_json",
    "explain",
    "import_network",
    "instruction",
    "load",
    "maximum",
    "minimum",
    "module",
    "open_database",
    "replay",
    "resample",
    "sampling_instruction",
    "stop",
    "tune",
    "tune_network",
    "workloads",
]

_keep_old_paths()

if _TYPE_CHECKING:
    from schedlang import plot as plot
    from schedlang import report as report
else:

    def __getattr__(name: str) -> _ModuleType:
        """Import what draws when it is first used: ``sl.plot``, ``sl.report``."""
        if name not in ("plot", "report"):
            raise AttributeError(f"module 'schedlang' has no attribute {name!r}")
        return _importlib.import_module(f"schedlang.{name}")
