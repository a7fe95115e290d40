"""schedlang: an embedded probabilistic language for tensor-program schedules, on Apache TVM.

Importing the package is quick: a name is imported when it is first used, with all that it needs and
nothing else. So the command line answers ``--help``, and completes words, without waiting for TVM.
"""

import typing as _typing

from schedlang import _reports  # noqa: F401  (registers who shows results)

if _typing.TYPE_CHECKING:
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
        ConstraintError,
        DatabaseError,
        DistributionError,
        FileError,
        HostError,
        InstructionError,
        InvalidTrace,
        MissingExtraError,
        NetworkError,
        NoLatencyError,
        NotApplicable,
        PartialTraceWarning,
        RecordingError,
        RunInUseError,
        SchedlangError,
        SpaceError,
        TargetError,
        TemplateError,
        TraceFormatError,
        UnreadableWarning,
        UnsupportedOperatorError,
        UserCodeError,
        ValueOutOfRangeError,
        VersionError,
        WorkloadError,
    )
    from schedlang.expressions import IndexMap, IntExpr, IntRV, maximum, minimum
    from schedlang.instructions.handles import BlockRV, LoopRV
    from schedlang.just_in_time import JitCacheWarning, JitFunction, jit
    from schedlang.language.macros import instruction, sampling_instruction
    from schedlang.language.schedule import Schedule, Trace, assess, replay, resample
    from schedlang.measurement import Candidate, Measurement, Measurer, Status
    from schedlang.networks import (
        CompiledNetwork,
        CompiledNetworkSet,
        Network,
        NetworkResult,
        NetworkSet,
        compile_network,
        import_network,
        tune_network,
    )
    from schedlang.shapes import PointKernel, ShapeSet
    from schedlang.shapes.tune_shapes import tune_shapes
    from schedlang.spaces.idle import IdleModuleWarning
    from schedlang.spaces.module import Module, module
    from schedlang.spaces.placement import Stochastic, UnknownPlaceWarning
    from schedlang.spaces.sketch import FailedPathWarning, Sketch
    from schedlang.spaces.space import Space
    from schedlang.spaces.visit import UnrecordedDrawWarning, UnrecordedWorkWarning
    from schedlang.tuning import (
        Callback,
        CallbackWarning,
        Explanation,
        FailureExplanation,
        Hosts,
        HostWarning,
        InterruptedWarning,
        Match,
        PackingWarning,
        RayExecutor,
        Target,
        Trial,
        TuneResult,
        UntunedWarning,
        apply,
        best,
        default_schedule,
        default_space,
        explain,
        explain_failure,
        freeze,
        load,
        load_survey,
        measurer,
        stop,
        survey,
        tune,
    )
    from schedlang.workloads.workload import Workload
else:
    from schedlang._lazy import attach as _attach

    __getattr__, __dir__ = _attach(__name__)

__version__ = "0.1.0"

__all__ = [
    "BlockRV",
    "Callback",
    "CallbackWarning",
    "Candidate",
    "Categorical",
    "CompiledNetwork",
    "CompiledNetworkSet",
    "ComputeLocation",
    "ConstraintError",
    "Database",
    "DatabaseError",
    "Distribution",
    "DistributionError",
    "Explanation",
    "FailedPathWarning",
    "FailureExplanation",
    "FileError",
    "HostError",
    "HostWarning",
    "Hosts",
    "IdleModuleWarning",
    "ImperfectTile",
    "IndexMap",
    "InstructionError",
    "IntExpr",
    "IntRV",
    "IntRange",
    "InterruptedWarning",
    "InvalidTrace",
    "JitCacheWarning",
    "JitFunction",
    "LoopRV",
    "Match",
    "Measurement",
    "Measurer",
    "MissingExtraError",
    "Module",
    "Network",
    "NetworkError",
    "NetworkResult",
    "NetworkSet",
    "NoLatencyError",
    "NotApplicable",
    "PackingWarning",
    "PartialTraceWarning",
    "PartitionedTile",
    "PerfectTile",
    "Permutation",
    "PointKernel",
    "RayExecutor",
    "Record",
    "RecordingError",
    "RunInUseError",
    "SchedlangError",
    "Schedule",
    "ShapeSet",
    "Sketch",
    "Space",
    "SpaceError",
    "Status",
    "Stochastic",
    "Subset",
    "Target",
    "TargetError",
    "TemplateError",
    "Trace",
    "TraceFormatError",
    "Trial",
    "TuneResult",
    "UnknownPlaceWarning",
    "UnreadableWarning",
    "UnrecordedDrawWarning",
    "UnrecordedWorkWarning",
    "UnsupportedOperatorError",
    "UntunedWarning",
    "UserCodeError",
    "ValueOutOfRangeError",
    "VersionError",
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
    "explain_failure",
    "freeze",
    "import_network",
    "instruction",
    "jit",
    "load",
    "load_survey",
    "maximum",
    "measurer",
    "minimum",
    "module",
    "open_database",
    "replay",
    "resample",
    "sampling_instruction",
    "stop",
    "survey",
    "tune",
    "tune_network",
    "tune_shapes",
    "workloads",
]
