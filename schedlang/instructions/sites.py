"""Sites: the names of a trace's draws and choices, each used once.

``taken`` counts how often each name was asked for: the second ``tile`` is ``tile#1``.
"""

from __future__ import annotations

Taken = dict[str, int]


def free_site(taken: Taken, name: str) -> str:
    """Return the site that the next draw of this name gets."""
    count = taken.get(name, 0)
    return name if count == 0 else free_site(taken, f"{name}#{count}")


def claim_site(taken: Taken, name: str) -> None:
    """Take the site that ``free_site`` returns."""
    count = taken.get(name, 0)
    taken[name] = count + 1
    if count:
        claim_site(taken, f"{name}#{count}")


def name_of_site(taken: Taken, site: str) -> str:
    """Return the name for which ``free_site`` now gives this recorded site."""
    name = site
    while "#" in name:
        name = name.rpartition("#")[0]
        if free_site(taken, name) == site:
            return name
    return site
