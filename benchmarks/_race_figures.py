"""The figures and tables of a race, from its rows and finals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from _contest import median, ratio, show, summarise

DEFAULT, PEER = "auto", "metaschedule"

_MAIN = ("quality_64_vs_256", "time_ratio", "quality_256_vs_256", "worst_256")

Rows = Sequence[Mapping[str, Any]]


def figures(
    searches: Sequence[str], trials: tuple[int, int], rows: Rows, finals: Rows
) -> dict[str, Any]:
    """Return the main figures and both qualities of every search; ``None`` where unknown.

    A mean omits the workloads for which one of the two sides has no working program; ``notes``
    lists them. A search that ran on some workloads only has means over those, its ``workloads``;
    ``default_there`` is the default's ``quality_256_vs_256`` over the same workloads.
    """
    small, large = trials
    by_search = {}
    by_default = qualities(DEFAULT, large, large, finals)
    for search in searches:
        if search == PEER:
            continue
        at_small, _ = summarise(list(qualities(search, small, large, finals).values()))
        known = {k: v for k, v in qualities(search, large, large, finals).items() if v is not None}
        at_large, worst = summarise(list(known.values()))
        by_search[search] = {
            "quality_64_vs_256": at_small,
            "quality_256_vs_256": at_large,
            "worst_256": worst,
            "workloads": len(known),
            "default_there": summarise([by_default[name] for name in known])[0],
            "time_ratio": summarise(list(time_ratios(search, trials, rows).values()))[0],
            "search_share": search_share(search, large, rows),
        }
    nothing = dict.fromkeys(_MAIN)
    main = {name: by_search.get(DEFAULT, nothing)[name] for name in _MAIN}
    return {**main, "by_search": by_search, "notes": notes(rows, finals)}


def qualities(search: str, count: int, peer_count: int, finals: Rows) -> dict[str, float | None]:
    """MetaSchedule's latency over that of a search by workload, median over the seeds."""
    ratios: dict[str, list[float | None]] = {}
    for one in finals:
        peer = one["latency"].get(PEER, {}).get(str(peer_count))
        own = one["latency"].get(search, {}).get(str(count))
        ratios.setdefault(one["workload"], []).append(ratio(peer, own))
    return {workload: median(values) for workload, values in ratios.items()}


def time_ratios(search: str, trials: tuple[int, int], rows: Rows) -> dict[str, float | None]:
    """MetaSchedule's wall time for all trials over a search's for the smaller number.

    By workload, median over the seeds.
    """
    small, large = (str(count) for count in trials)
    own, peer = seconds_after(search, small, rows), seconds_after(PEER, large, rows)
    ratios: dict[str, list[float | None]] = {}
    for key, seconds in own.items():
        ratios.setdefault(key[0], []).append(ratio(peer.get(key), seconds))
    return {workload: median(values) for workload, values in ratios.items()}


def seconds_after(search: str, count: str, rows: Rows) -> dict[tuple[str, int], float]:
    """Return the wall time after a number of trials, by workload and seed, of successful runs."""
    return {
        (row["workload"], row["seed"]): row["seconds_after"][count]
        for row in rows
        if row["search"] == search and row["curve"] and count in row["seconds_after"]
    }


def search_share(search: str, trials: int, rows: Rows) -> float | None:
    """Return the median fraction of a run's wall time that the search and its models take."""
    return median(
        own_share(row["split"], row["seconds"])
        for row in rows
        if row["search"] == search and row["trials"] == trials
    )


def own_share(split: Mapping[str, float], seconds: float) -> float | None:
    """Return the fraction of a run's wall time that search and models take; ``None`` if unknown."""
    return (split["search"] + split["model"]) / seconds if split else None


def notes(rows: Rows, finals: Rows) -> list[str]:
    """Describe the runs that ended early or have no working program."""
    found = [
        f"{row['workload']} {row['search']} seed {row['seed']}: {row['measured']} of "
        f"{row['trials']} trials, {row['error']}"
        for row in rows
        if row["error"]
    ]
    for one in finals:
        found += [
            f"{one['workload']} {search} seed {one['seed']}: none of its best works"
            for search, latencies in one["latency"].items()
            if not latencies
        ]
    return found


def print_workload(
    name: str, searches: Sequence[str], trials: tuple[int, int], rows: Rows, finals: Rows
) -> None:
    """One workload's table: medians over the seeds."""
    small, large = trials
    own_finals = [one for one in finals if one["workload"] == name]
    print(f"\n{name:19} best (us) after       seconds for     MetaSchedule's {large} over")
    print(f"{'':18} {small:>9} {large:>9} {small:>8} {large:>8} {small:>13} {large:>9}")
    for search in searches:
        cells = []
        for count in trials:
            found = [one["latency"].get(search, {}).get(str(count)) for one in own_finals]
            cells.append(show(median(found), 9, 1, 1e6))
        for count in trials:
            times = seconds_after(search, str(count), [r for r in rows if r["workload"] == name])
            cells.append(show(median(times.values()), 8, 1))
        for count, width in zip(trials, (13, 9), strict=True):
            cells.append(show(qualities(search, count, large, own_finals).get(name), width))
        print(f"{search:18}", *cells)
    print(flush=True)


def print_figures(summary: Mapping[str, Any]) -> None:
    """The geometric means of every search, the targets of the default, and what is missing."""
    small, large = summary["trials"]
    print(f"{'':29} latency of MetaSchedule's {large} trials over")
    print(
        f"{'':18} {'on':>9} {small:>9} {large:>9} {'lowest':>9} {DEFAULT + ' there':>12} "
        f"{'time':>8} {'search share':>14}"
    )
    for search, one in summary["by_search"].items():
        print(
            f"{search:18} {one['workloads']:9} {show(one['quality_64_vs_256'], 9)} "
            f"{show(one['quality_256_vs_256'], 9)} {show(one['worst_256'], 9)} "
            f"{show(one['default_there'], 12)} {show(one['time_ratio'], 8)} "
            f"{show(one['search_share'], 14)}"
        )
    print(
        f"{'target of ' + DEFAULT:18} {'':9} {1.0:9.2f} {1.3:9.2f} {0.95:9.2f} {'':12} {8.0:8.2f} "
        f"{0.25:14.2f}"
    )
    for note in summary["notes"]:
        print(f"note: {note}")
