"""The interface of targets, and the conversion from the user's argument."""

from __future__ import annotations

import math
import platform
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from schedlang.errors import SchedlangError, TargetError
from schedlang.files import as_path
from schedlang.language.schedule import Trace
from schedlang.measurement import Measurer
from schedlang.spaces.space import Space
from schedlang.targets import kinds
from schedlang.targets.errors import LibraryError
from schedlang.tvm import codegen
from schedlang.tvm.codegen import CodeGenerator
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from schedlang.targets.deployment.callable import CompiledProgram
    from schedlang.tvm.codegen.compiler import CompilerTarget
    from schedlang.tvm.program import TensorProgram


_Member = TypeVar("_Member", bound=Callable[..., Any])
# Abstract under a name that type checkers do not know: for them ``Target("cpu")`` would be a
# mistake, and it makes a target of the kind that has the name.
_required: Callable[[_Member], _Member] = abstractmethod


class Target(ABC):  # noqa: B024  (`_required` is abstract)
    """A machine that programs are scheduled for. ``Target("cpu")`` is the one of this process.

    ``Target(name, ...)`` returns an instance of the class of its kind, such as
    ``schedlang.targets.CPUTarget``, which takes the other arguments and says what they mean. The
    name is that of a kind, or one of the names that a kind has besides: ``"x86/avx2"``, or
    ``"avx2"`` for short.

    All that depends on the machine is asked of its target. A kind of your own is a subclass with
    ``kind``, ``key`` and the methods that have no default here, and a line in
    ``schedlang.targets.kinds.KINDS``. Its instances are values: hashable, equal when they are the
    same machine, and picklable.

    Attributes
    ----------
    kind: the sort of machine, as ``KINDS`` calls it: ``"cpu"``.
    key: text that records are stored under.
    peak_flops: an upper bound on its arithmetic, in operations on 32-bit elements a second. By
        default infinite: any latency is believed.
    tvm_kind: the kind of TVM's targets that ``from_tvm_target`` reads; None if it reads none.
    on_host: whether its programs are called in this process, on arrays in the memory of the host.
    code_forms: the forms of code that ``code`` writes for it: ``("assembly",)``.

    Raises ``TargetError`` for an unknown name or option, and lists those there are.
    """

    __slots__ = ()

    tvm_kind: ClassVar[str | None] = None
    on_host: ClassVar[bool] = False
    code_forms: ClassVar[tuple[str, ...]] = ()

    def __new__(cls, name: str = "cpu", *_: Any, **options: Any) -> Any:
        """Make an instance of the kind that has this name."""
        made = kinds.class_of(name) if cls is Target else cls
        kinds.check_options(made, name, options)
        return super().__new__(made)

    @classmethod
    def from_name(cls, name: str) -> Target:
        """Return the target called ``name``; TargetError lists the names there are."""
        made: Target = cls(name)
        return made

    @classmethod
    def from_tvm_target(cls, target: CompilerTarget) -> Target:
        """Convert one of TVM's targets, of the kind ``tvm_kind``."""
        raise TargetError(f"{cls.__name__} reads no target of TVM; give a name")

    @classmethod
    def from_key(cls, key: str) -> Target:
        """Return the target that records are stored under as ``key``.

        What the key does not tell is unknown, such as the peak of a GPU without a data sheet.
        ``Target.from_key`` asks the class of its kind, which by default makes its target without
        arguments. TargetError for a key that no target has.
        """
        kind = key.partition("/")[0]
        made: Target = kinds.class_of_key(key).from_key(key) if cls is Target else cls(kind)
        return made

    def nearest_here(self) -> Target:
        """Return the target of this machine that is most like this one.

        It is this one, as by default, where this machine is the target or none of the kind is here.
        """
        return self

    def distance(self, other: Target) -> tuple[float, ...] | None:
        """Return how unlike this machine another one is, as regards the schedules that are fast.

        The nearest machine has the lowest tuple. None, as by default, where schedules for the other
        one are not worth trying here.
        """
        return None

    def relatives(self, keys: Iterable[str]) -> list[str]:
        """Return those of ``keys`` whose schedules are worth trying here, the nearest first.

        They are keys of other machines, see ``distance``; a key that no target has is left out.
        """
        found = []
        for key in set(keys) - {self.key}:
            try:
                distance = self.distance(Target.from_key(key))
            except (SchedlangError, TypeError, ValueError):
                continue  # of a kind that is not known here, or that is made in another way
            if distance is not None:
                found.append((distance, key))
        return [key for _, key in sorted(found)]

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of targets of this kind besides the kind's own.

        The part behind a slash is enough to find one; the class gets the name as it was written.
        """
        return ()

    @property
    @_required
    def kind(self) -> str:
        """The sort of machine, as ``schedlang.targets.kinds.KINDS`` calls it."""
        raise NotImplementedError

    @property
    @_required
    def key(self) -> str:
        """Text that is equal for machines whose records can be exchanged; the same in every run."""
        raise NotImplementedError

    @property
    def peak_flops(self) -> float:
        """Upper bound on its operations on 32-bit elements a second; see ``targets.roofline``."""
        return math.inf

    @property
    def memory_bytes_per_second(self) -> float:
        """Rate of its memory; infinite, as by default, where it is not known."""
        return math.inf

    def peak_flops_of(self, bits: int) -> float:
        """Return an upper bound on its operations a second on elements of ``bits`` bits.

        By default narrower elements than 32 bits are that many times as fast as they are narrow.
        """
        return max(32 / bits, 1.0) * self.peak_flops

    @_required
    def default_space(self) -> Space:
        """Return the space that ``tune`` searches where none is given."""
        raise NotImplementedError

    def movement_space(self) -> Space:
        """Return the space for programs that only move data (``Task.moves_data``).

        By default the default space.
        """
        return self.default_space()

    def estimate(self, mod: TensorProgram) -> float | None:
        """Return an estimate of a program's latency, in seconds; None, as by default, without one.

        It ranks programs of one workload that were not measured.
        """
        return None

    @property
    def has_estimate(self) -> bool:
        """Whether it estimates latencies at all."""
        return type(self).estimate is not Target.estimate

    def estimated(self, mod: TensorProgram) -> float:
        """Return the estimate; infinite where there is none, or a program is beyond it."""
        try:
            estimate = self.estimate(mod)
        except Exception:  # a statement of a kind that the estimate does not know
            return math.inf
        return math.inf if estimate is None or math.isnan(estimate) else estimate

    @_required
    def tvm_target(self) -> CompilerTarget:
        """Return TVM's target for this machine."""
        raise NotImplementedError

    @_required
    def check_present(self) -> None:
        """Raise TargetError unless this machine can run programs for the target."""
        raise NotImplementedError

    @_required
    def measurer(self, workload: Workload | None, **options: Any) -> Measurer:
        """Start a measurer for ``workload`` on this machine; the caller closes it.

        ``options`` are ``verify`` and ``seed`` (that of the random inputs), as ``tune`` has them;
        ``inputs``, ``tolerance`` and ``reference``, which it passes only where its user gives them;
        and those of the measurer itself. Raises TargetError where ``check_present`` does.
        Without a workload, and without a say on verification, the measurer is one for
        ``schedlang.measurer``: ``bind(workload, problem)`` gives both. Only measurers that derive
        from ``PooledMeasurer`` need to do that.
        """
        raise NotImplementedError

    def spec(self) -> dict[str, Any]:
        """Describe its code generation as JSON values, for ``targets.kinds.code_generator``."""
        made = {"kind": self.kind, "tvm_target": codegen.target_json(self.tvm_target())}
        place = kinds.KINDS[self.kind].target if self.kind in kinds.KINDS else ""
        # Other processes do not know a kind that this one has registered.
        return made if place.startswith("schedlang.") or not place else {**made, "class": place}

    @classmethod
    def code_generator(cls, spec: Mapping[str, Any]) -> CodeGenerator:
        """Make the code generator that the ``spec()`` of a target of this kind describes."""
        return CodeGenerator.from_json(spec["tvm_target"])

    @property
    def pool_threads(self) -> int:
        """Number of threads that parallel loops are tuned for; 0 where TVM's pool has no part."""
        return 0

    def deployment(self) -> dict[str, Any]:
        """Return what a library for the target records about it, as JSON values."""
        return {"kind": self.kind, "key": self.key, "threads": self.pool_threads}

    @classmethod  # noqa: B027  (by default any machine will do)
    def check_deployment(cls, recorded: Mapping[str, Any]) -> None:
        """Raise TargetError unless a library that records what ``deployment`` returned runs here.

        No code of the library has run yet, and none should: a missing instruction is a crash.
        """

    def build(self, mod: TensorProgram) -> CompiledProgram:
        """Compile ``mod`` for this machine and load it: call it with the arrays of any library.

        ``CompiledFunction`` says what it takes. Raises ``BuildError``, and ``TargetError`` where
        ``check_present`` does. Parallel loops get the threads that the program was tuned for;
        ``ThreadCountWarning`` says where they cannot.
        """
        from schedlang.targets.deployment import library

        self.check_present()
        return library.load_program(mod, self.code_generator(self.spec()), self.pool_threads)

    def export_library(self, mod: TensorProgram, path: str | Path) -> Path:
        """Compile ``mod`` into the shared library ``path``, for ``schedlang.load``.

        ``tvm.runtime.load_module`` loads it too. Each of its functions takes tensors of any
        alignment. Raises ``LibraryError`` for a folder that is not there and a name that TVM does
        not load, and ``BuildError``, also when there is no C compiler to link with.
        """
        from schedlang.targets.deployment import library

        generator = self.code_generator(self.spec())
        return library.write(mod, generator, as_path(path), self.deployment())

    def export_c(
        self,
        mod: TensorProgram,
        path: str | Path,
        *,
        name: str | None = None,
        compiler: str | None = None,
    ) -> Path:
        """Compile ``mod`` into a library for C that needs no TVM, with its header beside it.

        docs/c_libraries.md has what the header declares. ``schedlang.load`` loads a ``.so`` too.

        Parameters
        ----------
        path: ends with ``.so`` (a shared library), ``.a`` (an archive) or ``.o`` (an object).
        name: of the function in C, by default that of the file; of several functions, what comes
            before the name of each; functions of a set of shapes may begin so already.
        compiler: the command of a C compiler for the target; by default that of the variable
            ``CC``, or ``cc``, ``gcc`` or ``clang``.

        Raises ``LibraryError`` for a path or a name that there cannot be and for what C has no type
        for, and ``BuildError`` for a program that needs TVM's run time, and without a C compiler.
        """
        raise LibraryError(f"libraries for C have programs for CPUs, and this is {self.key}")

    def code(self, mod: TensorProgram, form: str) -> str:
        """Return the code that ``mod`` becomes, in one of ``code_forms``; nothing is run.

        Raises ``BuildError``, and ``TargetError`` for another form.
        """
        raise TargetError(
            f"target {self.key!r} has no code in the form {form!r}; it has: "
            f"{', '.join(self.code_forms) or 'none'}"
        )

    def culprit(self, trace: Trace, reason: str) -> str:
        """Return what in a trace made a program that was rejected for ``reason`` before it ran.

        It names module, instruction and block: ``"tile: bind at block C"``; empty, as by default,
        if that is not known.
        """
        return ""

    def provenance(self) -> dict[str, str]:
        """Return what a latency is measured with, by name: records hold it. All values are text."""
        return software()

    def describe(self) -> str:
        """Return a table of all that is known about the machine; here just the key."""
        return self.key


def as_target(value: Any) -> Target:
    """Return the target that ``value`` means: a Target, a name, or one of TVM's targets."""
    if isinstance(value, Target):
        return value
    if isinstance(value, str):
        return Target.from_name(value)
    readers = {cls.tvm_kind: cls for cls in reversed(kinds.classes()) if cls.tvm_kind is not None}
    known, names = ", ".join(sorted(readers)), ", ".join(kinds.all_names())
    if not isinstance(value, codegen.CompilerTarget):
        raise TargetError(
            f"{value!r} ({type(value).__name__}) is not a target; give a Target, a TVM target of "
            f"kind {known}, or one of the names: {names}"
        )
    kind = str(value.kind.name)
    if kind not in readers:
        raise TargetError(f"TVM target of kind {kind!r}; only {known} is known, as one of: {names}")
    found: Target = readers[kind].from_tvm_target(value)
    return found


def build_callable(mod: TensorProgram, target: Target | str | Any = "cpu") -> CompiledProgram:
    """Compile ``mod`` for this machine and load it, see ``Target.build``."""
    return as_target(target).build(mod)


def export_c(
    mod: TensorProgram, target: Target | str | Any, path: str | Path, **options: str | None
) -> Path:
    """Compile ``mod`` into a library for C that needs no TVM, see ``Target.export_c``."""
    return as_target(target).export_c(mod, path, **options)


def export_library(mod: TensorProgram, target: Target | str | Any, path: str | Path) -> Path:
    """Compile ``mod`` into the shared library ``path``, see ``Target.export_library``.

    ``schedlang.load`` loads it. Where plain TVM loads a program for CPUs, set ``TVM_NUM_THREADS``:
    TVM itself takes half of the hardware threads.
    """
    return as_target(target).export_library(mod, path)


# -- A table of a target's properties, with the source of each value ------------------------------

_UNITS = ((1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))


def table(
    key: str, values: Mapping[str, str], sources: Mapping[str, str], last: Sequence[str] = ()
) -> str:
    """Write the key, then a line for each attribute: name, value and source.

    ``last`` is the name, value and source of a last line whose value may be long.
    """
    widths = max(map(len, values)), max(map(len, values.values()))
    lines = [
        f"  {name:<{widths[0]}}  {value:>{widths[1]}}  {sources[name]}"
        for name, value in values.items()
    ]
    if last:
        lines.append(f"  {last[0]:<{widths[0]}}  {'  '.join(last[1:])}")
    return "\n".join([key, *lines])


def size(count: int) -> str:
    """Write a size in the largest unit that divides it: ``49152 -> "48 KiB"``."""
    unit, name = next((unit, name) for unit, name in _UNITS if count % unit == 0)
    return f"{count // unit} {name}"


# -- Software versions of a measurement, and whether two toolchains compare -----------------------


@cache
def schedlang_version() -> str:
    """Return the version that is installed; ``"source"`` where it is not."""
    try:
        return metadata.version("schedlang")
    except metadata.PackageNotFoundError:
        return "source"


def toolchain_key() -> str:
    """Return the versions of schedlang and of the code generators, as text.

    Latencies compare between equal ones.
    """
    return f"schedlang {schedlang_version()} {codegen.toolchain()}"


def software() -> dict[str, str]:
    """Return versions by name: ``tvm, ffi, llvm, python, schedlang, system``."""
    return {
        **codegen.versions(),
        "python": platform.python_version(),
        "schedlang": schedlang_version(),
        "system": f"{platform.system()} {platform.release()}",
    }
