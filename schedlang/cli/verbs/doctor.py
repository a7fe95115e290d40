"""``schedlang doctor``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from schedlang.cli.doctor.check import Check, run_checks, verdict
from schedlang.cli.output import note
from schedlang.cli.verb import DONE, FAILED, Answer, verb


@verb
def doctor(
    quick: Annotated[
        bool, typer.Option("--quick", help="Measure nothing: no peak, copy rate or noise.")
    ] = False,
    database: Annotated[Path | None, typer.Option(help="Check this database, too.")] = None,
) -> Answer:
    """Check this machine: versions, cores, noise, measured peak and copy rate, GPU, a database."""
    from schedlang.cli.doctor import machine, software

    # Versions come first: with a wrong one, importing TVM may end the process.
    makers: list[tuple[str, Callable[[], Check | Iterable[Check]]]] = [
        ("versions", software.check_versions),
        ("tvm", software.check_tvm),
        ("extras", software.check_extras),
        ("C compiler", software.check_compiler),
        ("environment", software.check_environment),
        ("cores", machine.check_cores),
        ("memory", machine.check_memory),
        ("clock", machine.check_clock),
        ("load", machine.check_load),
        ("waiting", machine.check_waiting),
    ]
    if not quick:
        from schedlang.cli.doctor.rates import check_measuring, check_rates

        makers += [("peak", check_rates), ("measuring", check_measuring)]
    makers.append(("GPU", machine.check_gpu))
    if database is not None:
        from schedlang.cli.doctor.database import check_database

        makers.append(("database", partial(check_database, database)))
    if not quick:
        note("measuring takes about 15 s; --quick leaves it out")
    checks = list(run_checks(makers))
    failed = any(one.state == "fail" for one in checks)
    document = {"ok": not failed, "checks": checks}
    text = "\n".join([*map(str, checks), verdict(checks)])
    return Answer(text, document, FAILED if failed else DONE)
