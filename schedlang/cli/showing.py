"""A scheduled program in the forms that one can read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from schedlang.cli.options import Form
from schedlang.cli.verb import UsageError
from schedlang.formats.decisions import stored_decisions

if TYPE_CHECKING:
    from schedlang.language.schedule import Schedule
    from schedlang.targets import Target

AS_IT_IS = "(the program as it is)"


def _decisions(trace: str) -> str:
    found = stored_decisions(trace)
    return "\n".join(f"{site} = {value!r}" for site, value in found.items()) or AS_IT_IS


STORED: Mapping[str, Callable[[str], str]] = {"decisions": _decisions, "json": str}
"""Forms that are made of a stored trace alone: neither the program nor TVM is needed."""
CODE = ("assembly", "cuda")
"""Forms that are code for a target."""


def shown(schedule: Schedule, form: Form, target: Target | None) -> str:
    """Return a program as text; code is that for ``target``."""
    trace = schedule.trace
    if form in STORED:
        return STORED[form](trace.to_json())
    if form == "trace":
        return str(trace) or AS_IT_IS
    if form == "python":
        return trace.as_python()
    if form == "tvm-python":
        return trace.as_tvm_python()
    if form == "tvmscript":
        return str(schedule.mod.script())
    assert target is not None
    if form not in target.code_forms:
        from schedlang.targets.kinds import KINDS, load

        wanted = " or ".join(kind for kind in KINDS if form in load(kind).code_forms)
        raise UsageError(
            f"--as {form} shows code for a target of kind {wanted}, and {target.key} is of kind "
            f"{target.kind}; name one with --target"
        )
    return target.code(schedule.mod, form)
