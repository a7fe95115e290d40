"""The papers' figures and tables, one file for each, or for a few that share their runs."""

from paper_rows import (
    ansor_ablation,
    ansor_networks,
    ansor_operators,
    ansor_partial,
    droplet_confidence,
    droplet_maps,
    droplet_models,
    droplet_parallel,
    forks,
    keyed,
    layers,
    metaschedule_modules,
    storm,
    storm_measured,
)
from paper_rows.figure import Figure

_FILES = (
    storm,
    storm_measured,
    layers,
    droplet_models,
    droplet_confidence,
    droplet_maps,
    droplet_parallel,
    metaschedule_modules,
    ansor_partial,
    ansor_operators,
    ansor_ablation,
    ansor_networks,
    keyed,
    forks,
)

FIGURES: dict[str, Figure] = {one.name: one for file in _FILES for one in file.FIGURES}
