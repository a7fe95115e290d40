"""schedlang: an embedded probabilistic language for tensor-program schedules, on Apache TVM.

Importing the package is quick: a name is imported when it is first used, with all that it needs and
nothing else. So the command line answers ``--help``, and completes words, without waiting for TVM.
"""

import typing as _typing

from schedlang import _reports  # noqa: F401  (registers who shows results)

if _typing.TYPE_CHECKING:
    from schedlang import errors, workloads
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
        register_distribution as distribution,
    )
    from schedlang.errors import NotApplicable, SchedlangError
    from schedlang.expressions import IndexMap, IntExpr, IntRV, maximum, minimum
    from schedlang.instructions.handles import BlockRV, LoopRV
    from schedlang.just_in_time import JitFunction, jit
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
    from schedlang.spaces.module import Module, Stochastic, module
    from schedlang.spaces.sketch import Sketch
    from schedlang.spaces.space import Space
    from schedlang.tuning import (
        Callback,
        Explanation,
        FailureExplanation,
        Hosts,
        Match,
        RayExecutor,
        Target,
        Trial,
        TuneResult,
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

    # Kept for one release: other names of ``schedlang.errors``, which ``__all__`` does not list.
    # isort: off
    from schedlang.errors import (
        CallbackWarning as CallbackWarning,
        ConstraintError as ConstraintError,
        DatabaseError as DatabaseError,
        DistributionError as DistributionError,
        FailedPathWarning as FailedPathWarning,
        FileError as FileError,
        HostError as HostError,
        HostWarning as HostWarning,
        IdleModuleWarning as IdleModuleWarning,
        InstructionError as InstructionError,
        InterruptedWarning as InterruptedWarning,
        InvalidTrace as InvalidTrace,
        JitCacheWarning as JitCacheWarning,
        MissingExtraError as MissingExtraError,
        NetworkError as NetworkError,
        NoLatencyError as NoLatencyError,
        PackingWarning as PackingWarning,
        PartialTraceWarning as PartialTraceWarning,
        RecordingError as RecordingError,
        RunInUseError as RunInUseError,
        SpaceError as SpaceError,
        TargetError as TargetError,
        TemplateError as TemplateError,
        TraceFormatError as TraceFormatError,
        UnknownPlaceWarning as UnknownPlaceWarning,
        UnreadableWarning as UnreadableWarning,
        UnrecordedDrawWarning as UnrecordedDrawWarning,
        UnrecordedWorkWarning as UnrecordedWorkWarning,
        UnsupportedOperatorError as UnsupportedOperatorError,
        UntunedWarning as UntunedWarning,
        UserCodeError as UserCodeError,
        ValueOutOfRangeError as ValueOutOfRangeError,
        VersionError as VersionError,
        WorkloadError as WorkloadError,
    )
    # isort: on
else:
    from schedlang._lazy import attach as _attach

    __getattr__, __dir__ = _attach(__name__)

__version__ = "0.1.0"

__all__ = [
    "BlockRV",
    "Callback",
    "Candidate",
    "Categorical",
    "CompiledNetwork",
    "CompiledNetworkSet",
    "ComputeLocation",
    "Database",
    "Distribution",
    "Explanation",
    "FailureExplanation",
    "Hosts",
    "ImperfectTile",
    "IndexMap",
    "IntExpr",
    "IntRV",
    "IntRange",
    "JitFunction",
    "LoopRV",
    "Match",
    "Measurement",
    "Measurer",
    "Module",
    "Network",
    "NetworkResult",
    "NetworkSet",
    "NotApplicable",
    "PartitionedTile",
    "PerfectTile",
    "Permutation",
    "PointKernel",
    "RayExecutor",
    "Record",
    "SchedlangError",
    "Schedule",
    "ShapeSet",
    "Sketch",
    "Space",
    "Status",
    "Stochastic",
    "Subset",
    "Target",
    "Trace",
    "Trial",
    "TuneResult",
    "Workload",
    "apply",
    "assess",
    "best",
    "compile_network",
    "default_schedule",
    "default_space",
    "distribution",
    "distribution_from_json",
    "distribution_to_json",
    "errors",
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
