"""The analytic models of tile-size selection that Droplet Search is shown on (its Figure 15).

Each is the cost of a tile of ``h`` times ``w`` elements of an array with sides of ``N``, in a cache
of ``C`` with lines of ``L``; names, sources and formulas are those of the figure, which takes them
from Table II of Renganarayana and Rajopadhye (2008). The figure writes TSS and WMC without
parentheses around ``h * w``, as it does elsewhere: they are here as written, and again with them.
All are sums of terms with positive coefficients, but for TLI, whose ``- w`` is in the figure.
"""

from __future__ import annotations

from collections.abc import Callable

from schedlang.instructions.handles import BlockRV
from schedlang.language.schedule import Schedule
from schedlang.spaces.module import module
from schedlang.spaces.space import Space

Cost = Callable[[int, int], float]

N, C, L = 100, 32, 32
SIDES = range(1, 100, 5)

MODELS: dict[str, Cost] = {
    "ESS (Esseghir 1993)": lambda h, w: C / (h * w),
    "LRW (Lam et al. 1991)": lambda h, w: 1 / h + 1 / w + (2 * h + w) / C,
    "TSS (Coleman and McKinley 1995)": lambda h, w: (2 * h + w) / h * w,
    "EUC (Rivera and Tseng 1999)": lambda h, w: 1 / h + 1 / w,
    "MOON (Moon and Saavedra 1998)": lambda h, w: 1 / h + 1 / w + (h + w) / C,
    "TLI (Chame and Moon 1999)": lambda h, w: 1 / h + 1 / w + (h - w) / C + h * w / C**2,
    "WMC (Wolf et al. 1998)": lambda h, w: C / h * w,
    "MHCf (Mitchell et al. 1997)": lambda h, w: (1 / h + 1 / 2) * (1 / N + 1 / L) + 2 / (h * w),
}
OTHER_READINGS: dict[str, Cost] = {
    "TSS, over h * w": lambda h, w: (2 * h + w) / (h * w),
    "WMC, over h * w": lambda h, w: C / (h * w),
}


@module
def note_tile(sch: Schedule, block: BlockRV) -> None:
    """Every tile of the models is a program of its own; nothing is tiled."""
    loop, *_ = sch.get_loops(block)
    for side in ("h", "w"):
        sch.annotate(loop, side, sch.sample_categorical(list(SIDES), name=side))


TILES = Space([note_tile], "tiles")


def positive(cost: Cost) -> Cost:
    """The cost shifted so that the lowest is 1, because TLI may be negative and a latency not."""
    lowest = min(cost(h, w) for h in SIDES for w in SIDES)
    return cost if lowest > 0 else lambda h, w: cost(h, w) - lowest + 1
