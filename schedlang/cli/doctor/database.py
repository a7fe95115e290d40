"""A database: whether it is sound, and what of it this machine can use."""

from __future__ import annotations

from pathlib import Path

import schedlang as sl
from schedlang.cli.doctor.check import Check

_NAMED = 3


def check_database(path: Path) -> Check:
    """Open a database, which checks the file, and apply the best record of each workload."""
    from schedlang.database import best_first
    from schedlang.database.owner import is_alive
    from schedlang.database.programs import Unreadable, replayed
    from schedlang.targets import toolchain_key

    name = "database"
    if path.is_dir():
        return Check(name, "fail", f"{path} is a folder", "give the file of a database")
    if not path.is_file():
        return Check(name, "fail", f"{path}: there is no such file", "tune --database makes one")
    try:
        opened = sl.open_database(path, read_only=True)
    except sl.DatabaseError as error:
        reason, _, remedy = str(error).partition("; ")
        return Check(name, "fail", reason, remedy)
    key, toolchain = sl.Target("cpu").key, toolchain_key()
    with opened:
        workloads, runs, unreadable = opened.workloads(), opened.runs(), Unreadable()
        total = opened.count()
        here = usable = 0
        for workload_key, workload_name in workloads:
            here += opened.count(workload_key, key, toolchain)
            found = best_first(opened, workload_key, key)
            program = unreadable.workload(opened, workload_key, workload_name)
            if found and program is not None:
                usable += replayed(found[0], program, unreadable=unreadable) is not None
    unfinished = [run for run in runs if not run.outcome]
    alive = [run for run in unfinished if run.owner and is_alive(run.owner)]
    figures = {
        "records": total,
        "records_of_this_machine": here,
        "workloads": len(workloads),
        "usable": usable,
        "runs": len(runs),
        "runs_not_ended": len(unfinished),
    }
    text = (
        f"{path} is sound: {total:,} records of {len(workloads)} workloads, {here:,} of them from "
        f"this machine and toolchain; {len(runs)} runs"
    )
    if unreadable:
        return Check(
            name,
            "warn",
            f"{text}; some rows cannot be used: {unreadable}",
            "they were written by another version, or are damaged; the others are used",
            figures,
        )
    if unfinished and len(alive) < len(unfinished):
        ids = ", ".join(f"#{run.id}" for run in unfinished[:_NAMED])
        more = "" if len(unfinished) <= _NAMED else f" and {len(unfinished) - _NAMED} more"
        return Check(
            name, "ok", f"{text}; not ended: {ids}{more}, the same call continues", figures=figures
        )
    return Check(name, "ok", text, figures=figures)
