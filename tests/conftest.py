"""What tests of several folders share."""

from __future__ import annotations

import difflib
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the golden texts that differ instead of failing",
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a GPU where there is none, and say why there is none."""
    if item.get_closest_marker("gpu") is None:
        return
    from schedlang.targets.cuda.device import device_count, why_none

    if device_count() == 0:
        pytest.skip(f"needs an NVIDIA GPU: {why_none()}")


@pytest.fixture
def hear_ctrl_c() -> Iterator[None]:
    """Ctrl-C interrupts the test, and the processes that it starts.

    A shell has its background processes ignore it, and they pass that on to their children.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compares a text with the golden one in a file; ``--update-golden`` writes it there."""

    def compare(path: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        known = path.read_text(encoding="utf-8") if path.exists() else ""
        if text != known:
            lines = difflib.unified_diff(
                known.splitlines(), text.splitlines(), f"golden {path.name}", "now", lineterm=""
            )
            pytest.fail(
                "\n".join([*lines, "", "if this is right: pytest --update-golden"]), pytrace=False
            )

    return compare
