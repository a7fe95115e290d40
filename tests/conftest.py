"""What tests of several folders share."""

from __future__ import annotations

import difflib
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the golden texts that differ instead of failing",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a parallel run, start slow files first and long ones next: all processes end together.

    pytest-xdist would go by the number of tests alone, and a file of few slow tests would be last.
    """
    if not hasattr(config, "workerinput"):  # what pytest-xdist gives its processes
        return
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    counts = Counter(item.path for item in items)
    items.sort(key=lambda item: (item.path not in slow, -counts[item.path], item.path))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a GPU where there is none, and say why there is none."""
    if item.get_closest_marker("gpu") is None:
        return
    from schedlang.targets.cuda.cuda_api import device_count, why_none

    if device_count() == 0:
        pytest.skip(f"needs an NVIDIA GPU: {why_none()}")


WITHOUT_TORCH = 'raise ModuleNotFoundError("No module named \'torch\'", name="torch")\n'


@pytest.fixture(scope="session", autouse=True)
def path_of_scripts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Processes that tests start find this repository, and no torch.

    TVM imports torch where it finds it, which takes twice as long as the rest of TVM. What needs
    torch is tested in pytest's own process, and by the documentation's scripts that name it.
    """
    folder = tmp_path_factory.mktemp("without_torch")
    (folder / "torch.py").write_text(WITHOUT_TORCH)
    root = Path(__file__).resolve().parents[1]
    with pytest.MonkeyPatch.context() as patch:
        before = os.environ.get("PYTHONPATH", "")
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(folder), str(root), before))))
        yield


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
