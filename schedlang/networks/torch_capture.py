"""Capturing what a torch module computes, and saying in one message why that is not possible."""

from __future__ import annotations

import contextlib
import io
import linecache
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from schedlang.errors import NetworkError
from schedlang.instructions.user_code import raised_at
from schedlang.workloads.wrong_kind import not_a_network

# What torch logs of an error that it raises too.
_LOGGERS = ("torch.fx.experimental.symbolic_shapes", "torch._subclasses.fake_tensor")
# Errors of torch about a number or a shape that it has to know, and that depends on values.
_DEPENDS_ON_VALUES = (
    "GuardOnDataDependentSymNode",
    "DataDependentOutputException",
    "DynamicOutputShapeException",
)


def capture(
    torch: Any, model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], name: str
) -> Any:
    """Return the ``ExportedProgram`` of a module on example inputs.

    Raises ``NetworkError`` with the line of the model that torch stopped at.
    """
    if isinstance(model, torch.jit.ScriptModule):
        raise not_a_network("a network is imported from a torch.nn.Module", model)
    printed = io.StringIO()
    try:
        # Besides its error, torch prints the graph so far, in its own operators.
        with _silent(), contextlib.redirect_stderr(printed):
            program = torch.export.export(model, tuple(args), dict(kwargs), strict=False)
    except Exception as error:  # torch raises errors of every type
        kinds = {kind.__name__ for kind in type(error).__mro__}
        place = _place_of(error)
        if kinds.intersection(_DEPENDS_ON_VALUES):
            raise NetworkError(
                f"{name}: a branch, a loop or a shape depends on the values of tensors{place}; a "
                "network computes the same for all values: compute both sides and select with "
                "torch.where, repeat a fixed number of times, or leave that part out of the model"
            ) from None
        lines = str(error).strip().splitlines()
        raise NetworkError(
            f"torch.export cannot capture {name}: {': '.join([type(error).__name__, *lines[:1]])}"
            f"{place}"
        ) from error
    sys.stderr.write(printed.getvalue())
    return program


def _place_of(error: BaseException) -> str:
    """Return the place of the model that an error comes from: ``", at file:line: code"``."""
    place = raised_at(error, installed=False)
    if not place:
        return ""
    file, _, line = place.rpartition(":")
    code = linecache.getline(file, int(line)).strip()
    return f", at {place}: `{code}`" if code else f", at {place}"


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled
