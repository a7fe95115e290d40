"""``schedlang doctor``: each check, well and not."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

import schedlang as sl
from schedlang import host
from schedlang.cli import checks as checks_of, doctor
from schedlang.cli.checks import DoctorCheck, run_checks
from schedlang.targets.cpu.rates import measured_copy, sampled_peak
from schedlang.targets.measure.timing import TimingPolicy
from tests.cli.calling import call, document
from tests.cli.conftest import Tuned


def test_a_quick_look(tuned: Tuned) -> None:
    said = document("doctor", "--quick", "--database", tuned.file)
    checks = {one["name"]: one for one in said["checks"]}
    assert {"versions", "cores", "memory", "clock", "load", "GPU", "nvcc"} <= set(checks)
    assert said["ok"] == all(one["state"] != "fail" for one in said["checks"])
    assert checks["database"]["state"] == "ok"
    assert checks["database"]["figures"]["records_of_this_machine"] > 3
    assert checks["cores"]["figures"]["cores"] >= 1


def test_a_database_of_a_newer_version_fails(tmp_path: Path) -> None:
    file = tmp_path / "newer.db"
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA user_version=99")
    found = call("doctor", "--quick", "--database", file, code=1)
    assert "newer" in found.stdout and "fail" in found.stdout


def test_a_folder_is_no_database(tmp_path: Path) -> None:
    found = call("doctor", "--quick", "--database", tmp_path, code=1)
    assert f"{tmp_path} is a folder" in found.stdout


def test_the_rates_of_this_machine() -> None:
    quick = TimingPolicy(min_sample_seconds=0.001, min_repeats=2, max_repeats=2, budget_seconds=0.1)
    assert 1e8 < max(sampled_peak(1, quick)) <= sl.Target("cpu", cores=1).peak_flops
    assert measured_copy(1) > 1e7


def test_wrong_versions_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"apache-tvm-ffi": "0.1.15.post2"}
    own = checks_of.version_of
    monkeypatch.setattr(checks_of, "version_of", lambda name: versions.get(name) or own(name))
    check = checks_of.check_versions()
    assert check.state == "fail" and "apache-tvm-ffi 0.1.15.post2" in check.text
    assert 'pip install "apache-tvm-ffi==' in check.remedy


def test_the_clock_of_other_machines(tmp_path: Path) -> None:
    cpu = tmp_path / "sys/devices/system/cpu"
    for name, text in {"cpufreq/boost": "1", "cpu0/cpufreq/scaling_governor": "powersave"}.items():
        (cpu / name).parent.mkdir(parents=True, exist_ok=True)
        (cpu / name).write_text(f"{text}\n", encoding="utf-8")
    check = doctor.check_clock(tmp_path)
    assert check.state == "warn" and "turbo is on" in check.text and check.remedy
    unknown = doctor.check_clock(tmp_path / "elsewhere")
    assert unknown.state == "ok" and unknown.figures["turbo"] is None


def test_whether_the_system_tells_what_threads_wait(tmp_path: Path) -> None:
    unknown = doctor.check_waiting(tmp_path / "none", tmp_path / "none")
    assert unknown.state == "warn" and set(unknown.figures.values()) == {None}
    assert "only work that is timed after candidates tells" in unknown.remedy
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "schedstat").write_text("1000 0 1\n")
    idle = doctor.check_waiting(tmp_path)
    assert idle.figures["waited"] in (0, None)


def test_a_container_with_a_limit(tmp_path: Path) -> None:
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "cpu.max").write_text("150000 100000\n", encoding="utf-8")
    assert host.cpu_quota(tmp_path) == 1.5
    (group / "cpu.max").write_text("max 100000\n", encoding="utf-8")
    assert host.cpu_quota(tmp_path) is None


def test_a_check_that_raises_is_a_failed_check() -> None:
    def broken() -> DoctorCheck:
        raise RuntimeError("no such thing")

    def well() -> Iterator[DoctorCheck]:
        yield DoctorCheck("second", "ok", "fine")

    first, second = run_checks([("first", broken), ("second", well)])
    assert first.state == "fail" and "no such thing" in first.text
    assert second.state == "ok"
