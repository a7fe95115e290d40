"""Reports of what modules did, and of the exceptions that they raised."""

from __future__ import annotations

from dataclasses import dataclass

from schedlang.errors import ConstraintError, InstructionError
from schedlang.instructions.user_code import raised_at
from schedlang.printed import first_line

_NOTE = "in module "


def name_failure(error: Exception, module: str, block: str) -> None:
    """Add a note to an exception: its module, block and line. The innermost module's note stays.

    Type and message stay as they are; Python prints the note below the message.
    """
    if _note_of(error):
        return
    location = raised_at(error)
    if isinstance(error, ConstraintError):
        error.block = error.block or block
    elif isinstance(error, InstructionError):
        error.module = error.module or module
        error.block = error.block or block
        module, location = error.module, error.location or location
    line = f", line {location}" if location else ""
    error.add_note(f"{_NOTE}{module} at {f'block {block}' if block else 'the root'}{line}")


def describe_failure(error: Exception) -> str:
    """Return type, message and place of an exception in one line."""
    note = _note_of(error)
    said = ": ".join(filter(None, [type(error).__name__, first_line(str(error))]))
    return f"{said} ({note})" if note else said


def _note_of(error: Exception) -> str:
    notes = getattr(error, "__notes__", ())
    return next((note for note in notes if note.startswith(_NOTE)), "")


@dataclass(frozen=True, slots=True)
class Visit:
    """Report of what a module did at one place.

    Attributes
    ----------
    module: its name.
    block: where it was; empty at the root.
    instructions: number of instructions that it recorded there.
    reason: why it does not apply there, from ``NotApplicable``; None where it applies.
    error: the exception that it raised there: type, message, module, block and line. None where it
        raised none. What it did there was undone.
    """

    module: str
    block: str
    instructions: int = 0
    reason: str | None = None
    error: str | None = None

    def __str__(self) -> str:
        where = f"{self.module} at {self.block or 'the root'}"
        if self.error is not None:
            return f"{where}: failed, and was undone: {self.error}"
        if self.reason is not None:
            return f"{where}: does not apply" + (self.reason and f", {self.reason}")
        return f"{where}: {self.instructions} instruction{'s' * (self.instructions != 1)}"
