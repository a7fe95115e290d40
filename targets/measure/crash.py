"""What to tell a user whose unscheduled program crashes."""

from __future__ import annotations

from collections.abc import Iterable

from schedlang.measurement import Status
from schedlang.targets.measure.binding import Binding
from schedlang.targets.worker.exit import describe_signal
from schedlang.targets.worker.request import Reply

_DIVISION = "SIGFPE"


def explain_crash(binding: Binding, reply: Reply) -> str:
    """Say on what the unscheduled program crashed, why, and what to do.

    ``reply`` is of the worker that was lost with it.
    """
    name = reply.header.get("signal", "")
    out_of_memory = reply.status == Status.OUT_OF_MEMORY
    if not name or out_of_memory:
        return f"the unscheduled program crashed: {reply.header['message']}"
    advice = crash_advice(binding, division=name == _DIVISION)
    what = describe_signal(name)
    return f"the unscheduled program crashed on {_inputs(binding)}: {what}; {advice}"


def crash_advice(binding: Binding, *, division: bool | None = None) -> str:
    """Name the arguments that may be at fault, and the remedy.

    With ``division``, only those that divisors depend on; with False, only those that indices do.
    """
    uses = binding.uses
    parts = []
    if division is not False and uses.divisors:
        parts.append(f"a divisor depends on {_names(binding, uses.divisors)}")
    # An argument whose range is known stays inside, unless the user chose its values.
    suspects = uses.indices if binding.values is not None else uses.indices - set(uses.ranges)
    if division is not True and suspects:
        names = _names(binding, suspects)
        parts.append(f"an argument used as an index may have had values outside its range: {names}")
    given = binding.values is not None
    remedy = "are the inputs valid for it?" if given else "give inputs= that are valid for it"
    return "; ".join([*parts, remedy])


def _inputs(binding: Binding) -> str:
    return "random inputs" if binding.values is None else "the given inputs"


def _names(binding: Binding, positions: Iterable[int]) -> str:
    return ", ".join(
        f"{binding.args[place].name!r} (argument {place})" for place in sorted(positions)
    )
