"""The papers' figures and tables, one file for each, or for a few that share their runs."""

from itertools import chain

from paper_rows import droplet_confidence, droplet_maps, droplet_models, droplet_parallel, storm
from paper_rows.figure import Figure

_FILES = (storm, droplet_models, droplet_confidence, droplet_maps, droplet_parallel)

FIGURES: dict[str, Figure] = {
    one.name: one for one in chain.from_iterable(file.FIGURES for file in _FILES)
}
