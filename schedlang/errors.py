"""The hierarchy of all errors that schedlang raises, and warnings that several parts give.

``NotApplicable`` means that a module has nothing to do at a location. It is the only error that
combinators (``Space``, ``Stochastic``) catch; all others reach the user.
"""

from __future__ import annotations

import importlib
import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class SchedlangError(Exception):
    """Base of all errors raised by schedlang.

    Attributes
    ----------
    result: the ``TuneResult`` so far, where the error ended a run of ``tune``; else None. ``tune``
        gives this attribute to errors of other libraries and of your own code too.
    """

    result: Any = None


class NotApplicable(SchedlangError):
    """A module does not apply at this location.

    It may be raised at any time: transformations that the module has already made are undone.
    """


class InstructionError(SchedlangError):
    """An instruction cannot be applied with these arguments.

    Attributes
    ----------
    instruction: name of the instruction.
    arguments: the arguments as text, by name.
    reason: the cause in one line (TVM's own reason if TVM rejected the call).
    location: ``file:line`` in the user's code; empty when a stored trace is replayed.
    program: the affected part of the program, as TVMScript; may be empty.
    module: the transformation module that applied the instruction; empty outside modules.
    block: the block that the module worked on; empty at the root and outside modules.
    """

    def __init__(
        self,
        instruction: str,
        reason: str,
        *,
        arguments: dict[str, str] | None = None,
        location: str = "",
        program: str = "",
        module: str = "",
    ) -> None:
        self.instruction = instruction
        self.arguments = dict(arguments or {})
        self.reason = reason
        self.location = location
        self.program = program
        self.module = module
        self.block = ""
        super().__init__(self._render())

    def _render(self) -> str:
        call = ", ".join(f"{name}={value}" for name, value in self.arguments.items())
        lines = [f"{self.instruction}({call}): {self.reason}"]
        if self.location:
            lines.append(f"  at {self.location}")
        if self.program:
            lines.append("  in")
            lines += ["    " + line for line in self.program.splitlines()]
        return "\n".join(lines)


class InvalidTrace(SchedlangError):
    """A trace does not replay: a decision is outside its support, or an instruction does not apply.

    Attributes
    ----------
    reason: ``"decision"``, ``"instruction"`` or ``"constraint"``; stable, for counting.
    site: the sampling site, the name of the instruction that does not apply, or the reason that
        ``sch.require`` gives.
    value: the rejected decision; None for an instruction.
    support: the distribution of the site, as text.
    module: the transformation module that recorded the instruction; empty where none did.
    block: the block that the instruction works on, as the trace looked it up; may be empty.
    """

    def __init__(
        self, message: str, *, reason: str, site: str, value: Any = None, support: str = ""
    ) -> None:
        self.reason = reason
        self.site = site
        self.value = value
        self.support = support
        self.module = ""
        self.block = ""
        super().__init__(message)


class ConstraintError(InvalidTrace):
    """Drawn values violate a constraint that a module states with ``sch.require``.

    Attributes
    ----------
    why: the reason that the module gives.
    draws: how many draws in a row violated a constraint; 1 where there was no other to make.
    sites: of the draws that the condition compares; empty where it is a plain bool.
    """

    sites: frozenset[str] = frozenset()

    def __init__(self, why: str, condition: str = "") -> None:
        self.why = why
        self.draws = 1
        said = f"requires {condition or 'what is false'}"
        super().__init__(f"{why}: {said}", reason="constraint", site=why)


class TraceFormatError(SchedlangError):
    """A stored trace cannot be read.

    ``where`` is the path of the invalid value, such as ``instructions[3].args.loop``.
    """

    def __init__(self, where: str, problem: str) -> None:
        self.where = where
        self.problem = problem
        super().__init__(f"{where}: {problem}")


class RecordingError(SchedlangError):
    """A recorded space cannot be read, is not complete, or does not have what is asked of it."""


class SpaceError(SchedlangError):
    """A space or module is invalid: unknown name, endless choices, an option outside a choice."""


class DistributionError(SchedlangError, ValueError):
    """The parameters of a distribution are invalid or leave it without a support."""


class WorkloadError(SchedlangError, ValueError):
    """A program cannot be a workload: dynamic shape, several functions, not schedulable.

    Or it does not compute what the user's ``reference`` returns.

    Attributes
    ----------
    reason: what is wrong. remedy: what who wrote the program can do about it; may be empty. The
        message has both.
    """

    def __init__(self, reason: str, remedy: str = "") -> None:
        self.reason = reason
        self.remedy = remedy
        super().__init__(f"{reason}; {remedy}" if remedy else reason)


class TemplateError(WorkloadError):
    """A template fails, makes no program, or makes two for the same extents.

    The message has the extents; where the template raised an exception, that is the cause.
    """


class NoLatencyError(SchedlangError, ValueError):
    """A measurement that failed has no latency; the message says how it ended."""


class TargetError(SchedlangError, ValueError):
    """An unknown target, or one that this machine cannot measure on."""


class DatabaseError(SchedlangError):
    """A database cannot be opened, read or written; the message says why and what to do."""


class FileError(SchedlangError, OSError):
    """A file cannot be written; one that was there before is as it was.

    The message has the path, what was to be written, the system's reason and a remedy.

    Attributes
    ----------
    errno, strerror, filename: as of any ``OSError``: the system's number and reason, and the path.
    """

    def __init__(
        self,
        number: int | None,
        reason: str,
        path: str,
        what: str = "the file",
        remedy: str = "check the disk",
    ) -> None:
        super().__init__(number, reason, path)
        self._message = (
            f"{path}: {what} cannot be written: {reason}; {remedy}, or give another path"
        )

    def __str__(self) -> str:
        return self._message


class RunInUseError(DatabaseError):
    """Another process, or another thread of this one, executes the same tuning run."""


class HostError(SchedlangError):
    """Hosts that tune cannot be used, or one failed in a way that another host would as well.

    The message names the host and what it said.

    Attributes
    ----------
    host: name of the host that sent a wrong reply; empty where it is not known, or none did.
    """

    def __init__(self, message: str, host: str = "") -> None:
        super().__init__(message)
        self.host = host


class UserCodeError(SchedlangError):
    """Code of the user's raised what would end the process, such as ``SystemExit``."""


@contextmanager
def users_code(what: str) -> Iterator[None]:
    """Run code of the user's, which ``what`` names: it may fail, and ends no process.

    An Exception passes as it is. Any other, such as SystemExit, GeneratorExit or a BaseException of
    the user's own, becomes a ``UserCodeError``, which every part of the library takes for a
    failure. Ctrl-C, and what a signal's handler raises, are no failures of the code that they
    interrupt, and pass.
    """
    try:
        yield
    except Exception:
        raise
    except BaseException as error:
        if is_interrupt(error):
            raise
        raise ordinary(error, what) from error


def ordinary(error: BaseException, what: str) -> Exception:
    """Return an exception that is an Exception: itself, or a UserCodeError that says what it is."""
    if isinstance(error, Exception):
        return error
    return UserCodeError(f"{what} raised {type(error).__name__}: {error}")


def is_interrupt(error: BaseException) -> bool:
    """Return whether an exception is Ctrl-C, or was raised by the handler of a signal."""
    if isinstance(error, KeyboardInterrupt):
        return True
    handlers = {
        getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()
    }
    return any(frame.f_code in handlers for frame, _ in traceback.walk_tb(error.__traceback__))


class NetworkError(SchedlangError, ValueError):
    """A model cannot be imported as a network, or is called with other inputs than it takes."""


class UnsupportedOperatorError(NetworkError):
    """A model has operators that cannot be imported.

    Attributes
    ----------
    operators: the name of each such operator, and the places in the model that call it.
    """

    def __init__(self, message: str, operators: dict[str, list[str]]) -> None:
        self.operators = operators
        super().__init__(message)


class ValueOutOfRangeError(NetworkError):
    """A call of a network was given a value that its operators do not take.

    This is an index outside its tensor, an integer divisor of zero, or a probability outside
    [0, 1]; the message names the operator and the range. Correct the value before the call.
    """


class MissingExtraError(SchedlangError, ImportError):
    """An optional package is needed and not installed; the message names the extra to install."""


class VersionError(SchedlangError, ImportError):
    """TVM or its FFI has a version that schedlang does not work with; the message names the remedy.

    It is raised by the first name of ``schedlang`` that needs TVM.
    """


def require(package: str, purpose: str, extra: str = "") -> Any:
    """Import an optional package; ``MissingExtraError`` where it is not installed.

    ``extra`` is the name of the extra that installs it; by default that of the package.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        extra = extra or package.partition(".")[0]
        raise MissingExtraError(
            f'{purpose} needs {package}: pip install "schedlang[{extra}]"'
        ) from error


class UnreadableWarning(UserWarning):
    """A database holds a program or a record that cannot be used; the message names the row."""


class PartialTraceWarning(UserWarning):
    """A TVM trace lacks some instructions of the record or trace that it was made from."""


# -- Warnings of spaces, runs, hosts and kernels --------------------------------------------------


class UnknownPlaceWarning(UserWarning):
    """A module states a place that the space does not have, but for a slip of the pen."""


class UnrecordedDrawWarning(UserWarning):
    """A module draws from Python's or NumPy's global generator: the trace has no such draw."""


class UnrecordedWorkWarning(UserWarning):
    """A module returns blocks, or works on a copy of its schedule: nothing comes of either."""


class IdleModuleWarning(UserWarning):
    """A module of yours does nothing: those before it in the space leave it nothing to do."""


class FailedPathWarning(UserWarning):
    """Some paths of choices have no sketch, because a module failed on them."""


class InterruptedWarning(UserWarning):
    """``tune`` or ``tune_network`` was interrupted (Ctrl-C) and returned the result so far.

    Attributes
    ----------
    result: the result so far, where warnings are raised as errors and nothing is returned.
    """

    result: Any


class CallbackWarning(UserWarning):
    """A callback or a stop rule raised an exception: it is not called again, the run goes on.

    Attributes
    ----------
    error: the exception, with its traceback.
    """

    error: Exception


class HostWarning(UserWarning):
    """A host is set apart, as it is not as fast as the others, or sent a reply that is not stored;
    or all hosts are silent.
    """


class PackingWarning(UserWarning):
    """A function packs weights in each call; its record was measured with weights packed ahead."""


class UntunedWarning(UserWarning):
    """A function has no verified record of its own: it stays unscheduled, or has a relative's."""


class JitCacheWarning(UserWarning):
    """Kernels are compiled in every process: the folder that would keep them cannot be used."""
