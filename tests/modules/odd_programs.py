"""Programs that nobody schedules: they update in place, scan and scatter, or are of odd form."""

from __future__ import annotations

import functools
import textwrap
from typing import NamedTuple

from schedlang.workloads import from_script
from schedlang.workloads.workload import Workload
from tests.modules.odd_forms import FORMS
from tests.modules.odd_updates import UPDATES

ODD = {**UPDATES, **FORMS}


class Odd(NamedTuple):
    """A program, and what finishing does to it: along the stores, and as MetaSchedule does."""

    workload: Workload
    along_stores: str
    metaschedule: str


@functools.cache
def odd(name: str) -> Odd:
    """Return the program of this name; its parameters are written ``A: 8x4; I: 8 int32``."""
    parameters, body, along_stores, metaschedule = ODD[name]
    signature = ", ".join(_parameter(text) for text in parameters.split(";"))
    lines = "\n".join("    " + line for line in textwrap.dedent(body).strip("\n").splitlines())
    script = f"@T.prim_func(s_tir=True)\ndef main({signature}):\n{lines}\n"
    return Odd(from_script(script, name=name), along_stores, metaschedule)


def _parameter(text: str) -> str:
    name, _, kind = text.strip().partition(":")
    shape, _, dtype = kind.strip().partition(" ")
    extents = "".join(f"{extent}, " for extent in shape.split("x") if extent)
    return f"{name}: T.Buffer(({extents}), '{dtype or 'float32'}')"
