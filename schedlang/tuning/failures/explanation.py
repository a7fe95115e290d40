"""What is known of why a candidate failed, and how it reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from schedlang.printed import show_text

_MOST_SUSPECTS = 5


@dataclass(frozen=True)
class Prefix:
    """The program that the first instructions of a trace make, and how it ended.

    Attributes
    ----------
    length: number of instructions; 0 is the unscheduled program.
    status: of the measurement; ``"invalid"`` where the instructions do not apply, and
        ``"not tried"`` where there was no time left.
    message: why it failed, in one line; empty where it is right.
    """

    length: int
    status: str
    message: str = ""


@dataclass(frozen=True)
class Suspect:
    """An instruction that a failure may be the fault of.

    Attributes
    ----------
    number: its place in the trace, from 0.
    text: as a statement of Python, as ``trace.as_python()`` writes it.
    module: the transformation module that recorded it, outermost first; empty outside of modules.
    block: the block that it works on, as the trace looked it up; may be empty.
    defined_at: ``file:line`` of the function that defines it; empty for those of TVM.
    inside: where it is written in Python, the instructions that it ran and among which the fault
        lies, as statements; empty where that is not known.
    """

    number: int
    text: str
    module: str = ""
    block: str = ""
    defined_at: str = ""
    inside: Sequence[str] = ()

    def __str__(self) -> str:
        places = [f"module {self.module}" if self.module else "outside modules"]
        places += [f"block {self.block}"] if self.block else []
        places += [f"defined at {self.defined_at}"] if self.defined_at else []
        return f"{self.text} ({', '.join(places)})"


@dataclass(frozen=True)
class FailureExplanation:
    """The first instruction after which a program fails; ``print`` it.

    Attributes
    ----------
    record: id of the record; None where no database gave it one. workload: its name.
    recorded: the status of the record.
    status, message: how the whole program ends now; ``"ok"`` where it does not fail any more.
    instructions: number of instructions of the trace.
    suspects: the instruction at fault. Several where programs between them cannot be judged, since
        they fail before it would show: it is one of them. None where the unscheduled program fails
        the same way, or nothing fails now.
    prefixes: the programs that were tried, shortest first.
    first: whether nothing fails before the suspects; False where not all of it was tried.
    notes: what limits the answer, as sentences.
    """

    record: int | None
    workload: str
    recorded: str
    status: str
    message: str
    instructions: int
    suspects: Sequence[Suspect] = ()
    prefixes: Sequence[Prefix] = ()
    first: bool = True
    notes: Sequence[str] = ()

    _repr_pretty_ = show_text

    @property
    def instruction(self) -> int | None:
        """The place of the instruction at fault, from 0; None where it is not known for sure."""
        return self.suspects[0].number if len(self.suspects) == 1 else None

    @property
    def summary(self) -> str:
        """Return it in one line."""
        if not self.suspects:
            return self._without_suspects()
        one, last = self.suspects[0], self.suspects[-1]
        error = f": {self._error}" if self._error else ""
        what = _AFTER.get(self.status, self.status)
        if one is last:
            inner = f", in it {one.inside[0]}" if len(one.inside) == 1 else ""
            return f"{what} after {one}{inner}{error}"
        return (
            f"{what} after one of instructions {one.number} to "
            f"{last.number}, between {one.text} and {last.text}{error}"
        )

    @property
    def _error(self) -> str:
        """The message of the shortest program that fails like the whole one."""
        failed = (one.message for one in self.prefixes if one.status == self.status)
        return next(failed, self.message)

    def _without_suspects(self) -> str:
        if self.status == "ok":
            return (
                f"it ended as {self.recorded}, and does not fail now: it fails in some calls only, "
                "or what it was measured with has changed"
            )
        return f"the unscheduled program fails the same way: {self.message or self.status}"

    def __str__(self) -> str:
        number = "the record" if self.record is None else f"record {self.record}"
        now = "" if self.status == self.recorded else f", and now as {self.status}"
        lines = [f"{number} of {self.workload} ended as {self.recorded}{now}"]
        if self.suspects:
            lines += self._blame()
        else:
            lines.append(f"  {self._without_suspects()}")
        tried = Counter(one.status for one in self.prefixes)
        counts = ", ".join(f"{count} {status}" for status, count in tried.most_common())
        lines.append(f"  tried       {len(self.prefixes)} programs on the way: {counts}")
        lines += [f"  note        {note}" for note in self.notes]
        return "\n".join(lines)

    def _blame(self) -> list[str]:
        count = len(self.suspects)
        what = _AFTER.get(self.status, self.status)
        which = f"instruction {self.suspects[0].number}"
        if count > 1:
            which = f"one of {count} instructions"
        lines = [f"  at fault    {which} of {self.instructions} (from 0): {what} after it"]
        for one in self.suspects[:_MOST_SUSPECTS]:
            lines.append(f"    {one.number}: {one}")
            if len(one.inside) == 1:
                lines.append(f"      in it: {one.inside[0]}")
            elif one.inside:
                lines.append(f"      in it, one of {len(one.inside)}: {'; '.join(one.inside)}")
        if count > _MOST_SUSPECTS:
            lines.append(f"    and {count - _MOST_SUSPECTS} more")
        if self._error:
            lines.append(f"  error       {self._error}")
        return lines


_AFTER = {
    "wrong_result": "numbers are wrong",
    "invalid": "the trace does not apply",
    "rejected": "the program is rejected",
    "build_error": "the program does not build",
    "build_timeout": "the build takes too long",
    "out_of_memory": "memory runs out",
    "crashed": "the program crashes",
    "run_error": "the program fails when it runs",
    "run_timeout": "the program does not end in time",
    "suspicious_time": "the time is impossible",
}
