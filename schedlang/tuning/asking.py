"""Ask a search for proposals, and check what it returns."""

from __future__ import annotations

from schedlang.search import Proposal, Strategy


def checked_proposals(strategy: Strategy, wanted: int) -> list[Proposal]:
    """Ask a search for at most ``wanted`` proposals.

    TypeError where it returns anything but a list of proposals; ValueError where these are too
    many, or two have one id.
    """
    found = strategy.ask(wanted)
    what = f"search: {type(strategy).__name__}.ask({wanted})"
    remedy = "return a list of schedlang.search.Proposal, empty where there is none to propose"
    if not isinstance(found, list | tuple):
        raise TypeError(f"{what} returned {type(found).__name__}; {remedy}")
    for one in found:
        if not isinstance(one, Proposal):
            raise TypeError(f"{what} returned a list with {type(one).__name__} in it; {remedy}")
    if len(found) > wanted:
        raise ValueError(f"{what} returned {len(found)} proposals; return at most {wanted}")
    ids = [one.id for one in found]
    if len(set(ids)) < len(ids):
        raise ValueError(
            f"{what} returned proposals with the ids {ids}; each takes an id of its own"
        )
    return list(found)
