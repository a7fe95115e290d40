"""The papers' figures and tables, one file for each, or for a few that share their runs."""

from paper_rows import forks, keyed, layers, storm, storm_measured
from paper_rows.figure import Figure

_FILES = (storm, storm_measured, layers, forks, keyed)

FIGURES: dict[str, Figure] = {one.name: one for file in _FILES for one in file.FIGURES}
