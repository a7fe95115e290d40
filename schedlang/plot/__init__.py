"""Charts of runs, as altair objects: ``convergence(result)``, ``.save("convergence.svg")``.

Each takes what ``tune`` returns, or the ``RunHistory`` of a run in a database; ``kernels`` takes
what ``tune_shapes`` returns. Reports show the same charts.
"""

from schedlang.plot.convergence import convergence
from schedlang.plot.decisions import decisions, importance, rejections
from schedlang.plot.finals import finals
from schedlang.plot.kernels import kernels
from schedlang.plot.timeline import timeline

__all__ = ["convergence", "decisions", "finals", "importance", "kernels", "rejections", "timeline"]
