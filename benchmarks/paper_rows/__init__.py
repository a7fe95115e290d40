"""The papers' figures and tables, one file for each, or for a few that share their runs."""

from paper_rows import ansor_ablation, ansor_partial, metaschedule_modules, storm
from paper_rows.figure import Figure

_PAPERS = (storm, ansor_partial, ansor_ablation, metaschedule_modules)
FIGURES: dict[str, Figure] = {one.name: one for paper in _PAPERS for one in paper.FIGURES}
