"""The hierarchy of all errors that schedlang raises.

``NotApplicable`` is the only one that combinators (``Space``, ``Stochastic``) catch: it says "this
module has nothing to do here". Everything else is a fault to be shown to the user.
"""

from __future__ import annotations

from typing import Any


class SchedlangError(Exception):
    """Base of all errors raised by schedlang."""


class NotApplicable(SchedlangError):
    """A module does not apply at this location; raise it before or after transforming, it is
    undone.
    """


class InstructionError(SchedlangError):
    """An instruction was applied wrongly.

    Attributes
    ----------
    instruction: name of the instruction.
    arguments: the arguments as text, by name.
    reason: one line that says what is wrong (TVM's own reason where TVM refused).
    location: ``file:line`` of the user's code, empty when replaying a stored trace.
    program: the part of the program that the error concerns, as TVMScript; may be empty.
    module: the transformation module that it happened in; empty outside modules.
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
    reason: short stable word for counting (``"decision"`` or ``"instruction"``).
    site: the sampling site; for an instruction that does not apply, the name of the instruction.
    value: the decision that did not fit (None for an instruction).
    support: the distribution it should have come from, as text.
    """

    def __init__(
        self, message: str, *, reason: str, site: str, value: Any = None, support: str = ""
    ) -> None:
        self.reason = reason
        self.site = site
        self.value = value
        self.support = support
        super().__init__(message)


class TraceFormatError(SchedlangError):
    """A stored trace cannot be read; ``where`` is the place, such as
    ``instructions[3].args.loop``.
    """

    def __init__(self, where: str, problem: str) -> None:
        self.where = where
        self.problem = problem
        super().__init__(f"{where}: {problem}")


class SpaceError(SchedlangError):
    """A space or module is wrong: unknown name, endless choices, an option outside a choice."""


class DistributionError(SchedlangError, ValueError):
    """A distribution was given parameters that leave it without a sensible support."""


class WorkloadError(SchedlangError, ValueError):
    """A program cannot be a workload: dynamic shape, several functions, not schedulable."""


class TargetError(SchedlangError, ValueError):
    """An unknown target, or one that this machine cannot measure on."""


class DatabaseError(SchedlangError):
    """A database cannot be opened, read or written; the message says why and what to do."""
