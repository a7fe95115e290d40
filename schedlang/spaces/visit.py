"""Reports of what modules did."""

from __future__ import annotations

from dataclasses import dataclass


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
