"""An explanation: the decisions that matter, with their effects, limits and doubts."""

from __future__ import annotations

import math

from schedlang.notebook.markup import bar, card, clipped, line, table
from schedlang.printed import count_text
from schedlang.tuning.explaining.explanation import DecisionEffect, Explanation

_MOST = 12
_LONGEST = 600


def html_of(explanation: Explanation) -> str:
    """Return the summary, a row for each decision that matters, limits and doubts."""
    matter = [one for one in explanation.decisions if one.matters]
    parts = [line(clipped(explanation.summary, _LONGEST))]
    if matter:
        columns = ("decision", "value", "explains alone", "the best other value takes")
        rows = [
            (clipped(one.site, 60), clipped(repr(one.value), 60), bar(_part(one), 1.0), _other(one))
            for one in matter[:_MOST]
        ]
        parts.append(table(columns, rows))
    rest = len(explanation.decisions) - min(len(matter), _MOST)
    if rest:
        parts.append(line(f"{count_text(rest, 'decision')} more: print it.", kind="quiet"))
    for name, sentences in (("Near a limit", explanation.limits), ("Doubt", explanation.doubts)):
        parts += [
            line(f"{name}: {clipped(sentence, _LONGEST)}", kind="warn")
            for sentence in sentences[:_MOST]
        ]
    of = count_text(explanation.candidates, "candidate")
    return card("Explanation", f"from {of} with a latency", *parts)


def _part(effect: DecisionEffect) -> float:
    return math.nan if effect.importance is None else effect.importance.part


def _other(effect: DecisionEffect) -> str:
    if effect.without is None:
        return "not measured"
    return f"{effect.without:.2f}x the time ({effect.low:.2f} to {effect.high:.2f})"
