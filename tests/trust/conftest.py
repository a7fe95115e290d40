"""One measurer for the attacks of a file, and the verdicts that it has given."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.targets.conftest import survivors
from tests.trust.attack import Attack, Subject
from tests.trust.gauntlet import Verdict, judge, measurer
from tests.trust.open_attacks import BY_CHANCE, OPEN

__all__ = ["survivors"]

Judge = Callable[[Subject, Attack], Verdict]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Expect the tests of open attacks to fail."""
    for item in items:
        attack = item.callspec.params.get("attack") if hasattr(item, "callspec") else None
        if isinstance(attack, Attack) and attack.name in OPEN:
            strict = attack.name not in BY_CHANCE
            item.add_marker(pytest.mark.xfail(reason=OPEN[attack.name], strict=strict))


@pytest.fixture(scope="module")
def verdict(request: pytest.FixtureRequest) -> Iterator[Judge]:
    """Judges an attack; all that the session has tests of are judged with the subject's first."""
    chosen: dict[str, list[Attack]] = {}
    for item in request.session.items:
        if item.nodeid.startswith(request.node.nodeid) and hasattr(item, "callspec"):
            parameters = item.callspec.params
            if "attack" in parameters:
                chosen.setdefault(parameters["subject"].name, []).append(parameters["attack"])
    known: dict[tuple[str, str], Verdict] = {}
    with measurer() as bench:

        def look_up(subject: Subject, attack: Attack) -> Verdict:
            if (subject.name, attack.name) not in known:
                for found in judge(bench, subject, chosen[subject.name]):
                    known[found.subject, found.attack] = found
            if (subject.name, attack.name) not in known:
                pytest.skip(f"needs {attack.threads} threads")
            return known[subject.name, attack.name]

        yield look_up
