"""The PTX of warpgroups as calls of the functions in ``include/wgmma.h``."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

_TYPES = "f16|bf16"


def _product(found: re.Match[str], operands: Sequence[str]) -> str:
    columns = int(found["n"])
    places = re.findall(r"%(\d+)", found["registers"])
    registers = ", ".join(f"&{operands[int(place)]}" for place in places)
    left, right, add = (operands[int(found[one])] for one in ("left", "right", "add"))
    flags = f"{found['left_by_terms']}, {found['right_by_terms']}"
    return (
        f"{{ float* emu_d[] = {{{registers}}}; emu_wgmma<emu_{found['type']}>(emu_d, {columns}, "
        f"{left}, {right}, {add} != 0, {found['scale_left']}, {found['scale_right']}, {flags}); }}"
    )


WGMMA: tuple[tuple[str, Callable[[re.Match[str], Sequence[str]], str | None]], ...] = (
    (
        r"\{ ?\.reg \.pred (?P<p>\w+); setp\.ne\.b32 (?P=p), %(?P<add>\d+), 0; "
        rf"wgmma\.mma_async\.sync\.aligned\.m64n(?P<n>\d+)k16\.f32\.(?P<type>{_TYPES})\.(?P=type) "
        r"\{(?P<registers>[%\d, ]+)\}, %(?P<left>\d+), %(?P<right>\d+), (?P=p), "
        r"(?P<scale_left>-?1), (?P<scale_right>-?1), (?P<left_by_terms>[01]), "
        r"(?P<right_by_terms>[01]); ?\}",
        _product,
    ),
    (r"wgmma\.fence\.sync\.aligned;", lambda found, operands: "emu_wgmma_fence()"),
    (r"wgmma\.commit_group\.sync\.aligned;", lambda found, operands: "emu_wgmma_commit()"),
    (
        r"wgmma\.wait_group\.sync\.aligned (?P<pending>\d+);",
        lambda found, operands: f"emu_wgmma_wait({found['pending']})",
    ),
    (r"fence\.proxy\.async(?:\.shared::cta)?;", lambda found, operands: "emu_proxy_fence()"),
)
"""Patterns of instructions, and what writes the call of each."""
