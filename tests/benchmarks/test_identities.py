"""``benchmarks/identities.py`` finds the same again, and sees what changes an identity."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import identities
import pytest

import schedlang as sl

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "identities.py"


def run(*options: str, seed: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), "--quick", *options]
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300, env=environment
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_another_process_finds_the_same(tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    first = run("--json", str(found))
    assert first.returncode == 0, first.stdout + first.stderr
    again = run("--against", str(found), seed=1)
    count = len(json.loads(found.read_text())["values"])
    assert again.returncode == 0, again.stdout + again.stderr
    assert f"{count} of {count} are as before" in again.stdout
    stored = json.loads(found.read_text())
    name = next(iter(stored["values"]))
    stored["values"][name] = "another"
    found.write_text(json.dumps(stored))
    changed = run("--against", str(found))
    assert changed.returncode == 1 and f"differs: {name}\n" in changed.stdout


def plain() -> Mapping[str, str]:
    """The identities of three calls."""
    names = ("tune matmul", "tune matmul with trials", "tune matmul with a tolerance")
    made = {call.name: call for call in identities.calls() if call.name in names}
    return {name: identities.identity(made[name]) for name in names}


@pytest.fixture(scope="module")
def before() -> Mapping[str, str]:
    return plain()


def test_options_that_do_not_count(before: Mapping[str, str]) -> None:
    one, trials, tolerance = before.values()
    assert len(one) == 32
    assert one == trials != tolerance


def test_a_changed_default_is_seen(
    before: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sl.tune.__kwdefaults__ is not None
    monkeypatch.setitem(sl.tune.__kwdefaults__, "verify", "all")
    found = plain()
    assert all(found[name] != before[name] for name in before)


def test_another_version_is_seen(
    before: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules["schedlang.tuning.identity"]
    monkeypatch.setattr(module, "_VERSION", 3)
    found = plain()
    assert all(found[name] != before[name] for name in before)


def test_what_is_wrong_whatever_it_was() -> None:
    one, *others = (
        identities.Call("one", print),
        identities.Call("same", print),
        identities.Call("unlike", print, like="one"),
        identities.Call("nothing", print),
    )
    found = {"one": "1", "same": "1", "unlike": "2", "nothing": ""}
    assert [*identities.wrong([one, *others], found)] == [
        "same: the identity of one",
        "unlike: not the identity of one",
        "nothing: no run is stored",
    ]
