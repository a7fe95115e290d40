"""What an explanation holds, and how it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.printed import html_method, show_text
from schedlang.tuning.explaining.importance import Importance

# Decisions that explain less are not named one by one.
_SMALLEST = 0.02
_P_VALUE = 0.05
# A loss below this is no reason to call a decision important.
_SLOWER = 1.02


@dataclass(frozen=True)
class DecisionEffect:
    """A decision of the winner, and what the candidates tell of it.

    Attributes
    ----------
    site: the draw or choice; value: the winner's decision there.
    tried: number of values that were measured.
    importance: part of the differences in latency that the decision explains alone; None where too
        little was measured.
    without: latency of the fastest candidate with another value over that of the winner, both as
        they were measured in the search; None where no other value was measured.
    low, high: range of ``without`` that the confidence intervals of both medians allow.
    others: number of candidates with another value.
    """

    site: str
    value: Any
    tried: int
    importance: Importance | None = None
    without: float | None = None
    low: float = 0.0
    high: float = 0.0
    others: int = 0

    @property
    def matters(self) -> bool:
        """Whether it has to do with latency by more than chance, or no other value is as fast."""
        found = self.importance
        likely = found is not None and found.part >= _SMALLEST and found.p_value <= _P_VALUE
        return likely or self.needed

    @property
    def needed(self) -> bool:
        """Whether all candidates with another value are slower, beyond what noise explains."""
        return self.without is not None and self.low > 1 and self.without >= _SLOWER

    def __str__(self) -> str:
        text = f"{self.site} = {self.value!r}"
        parts = []
        if self.importance is not None and self.importance.part >= _SMALLEST:
            one = self.importance
            parts.append(f"explains {one.part:.0%} ({one.low:.0%} to {one.high:.0%}) alone")
        if self.without is not None:
            many = f"the best of {self.others} others" if self.others > 1 else "the only other"
            if self.needed:
                low, high = f"{self.low:.2f}", f"{self.high:.2f}"
                parts.append(f"{many} takes {self.without:.2f}x the time ({low} to {high})")
            elif self.high < 1:
                parts.append(f"{many} was no slower in the search")
            else:
                parts.append(f"{many} is as fast within the noise")
        return f"{text}: {'; '.join(parts)}" if parts else text


@dataclass(frozen=True)
class Explanation:
    """Why the winner of a run is fast; ``print`` it.

    Attributes
    ----------
    summary: the winner: its latency, its speed-up, how sure its rank is.
    decisions: those of the winner, most important first.
    limits: what the winner is near to, as sentences.
    doubts: what limits the evidence, as sentences.
    candidates: number of candidates with a latency that were looked at.
    """

    summary: str
    decisions: Sequence[DecisionEffect] = ()
    limits: Sequence[str] = ()
    doubts: Sequence[str] = ()
    candidates: int = 0

    _repr_pretty_ = show_text
    _repr_html_ = html_method("explanation")

    def __str__(self) -> str:
        lines = [self.summary]
        matter = [one for one in self.decisions if one.matters]
        if matter:
            about = ""
            if any(one.importance is not None for one in matter):
                about = (
                    " (the percentage is the part of the differences in latency between "
                    f"{self.candidates} candidates that the decision explains alone, and its range "
                    "in 9 of 10 halves of them)"
                )
            lines.append(f"What mattered, of {len(self.decisions)} decisions{about}:")
            lines += [f"  * {one}" for one in matter]
        rest = [one for one in self.decisions if not one.matters]
        fixed = [one.site for one in rest if one.tried < 2]
        little = [one.site for one in rest if one.tried >= 2]
        if little:
            lines.append(f"What made no difference that shows: {', '.join(little)}.")
        if fixed:
            lines.append(f"Not varied, so nothing is known: {', '.join(fixed)}.")
        for title, sentences in (("Near a limit", self.limits), ("Doubts", self.doubts)):
            if sentences:
                lines += [f"{title}:", *(f"  * {sentence}" for sentence in sentences)]
        return "\n".join(lines)
