"""The papers' figures and tables, one file for each, or for a few that share their runs."""

from paper_rows import ansor_partial, metaschedule_modules, storm
from paper_rows.figure import Figure

FIGURES: dict[str, Figure] = {
    one.name: one for one in (*storm.FIGURES, *ansor_partial.FIGURES, *metaschedule_modules.FIGURES)
}
