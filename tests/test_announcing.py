"""Long steps are announced: in the log, and on a terminal."""

from __future__ import annotations

import io
import logging
import sys
from pathlib import Path

import pytest

import schedlang as sl
from schedlang.lab.emulator import emulate
from schedlang.targets.cuda import nvcc
from schedlang.terminal import LOGGER, announced
from tests.tuning.scripted import Scripted


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_step_is_in_the_log_and_on_a_terminal(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, LOGGER.name)
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with announced("a long step"):
        pass
    assert caplog.messages == ["a long step"] and "a long step" in screen.getvalue()
    monkeypatch.setattr(sys, "stderr", plain := io.StringIO())
    with announced("another"):
        pass
    assert caplog.messages[1:] == ["another"] and not plain.getvalue()


@pytest.mark.parametrize("stderr", [None, "closed"])
def test_no_step_fails_for_want_of_an_output(
    stderr: str | None, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, LOGGER.name)
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", None if stderr is None else closed)
    with announced("a step"):
        done = True
    assert done and caplog.messages == ["a step"]


def test_nvcc_and_emulation_are_announced(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    caplog.set_level(logging.INFO, LOGGER.name)
    fake = tmp_path / "nvcc"
    fake.write_text("#!/bin/sh\necho error: it is a fake >&2\nexit 1\n", encoding="utf-8")
    fake.chmod(0o755)
    monkeypatch.setattr(nvcc, "find", lambda: fake)
    with pytest.raises(nvcc.CompileError, match="it is a fake"):
        nvcc.compile_cubin('extern "C" __global__ void mine(float* a) {}', "sm_90")
    emulate(sl.workloads.matmul(4, 4, 4), orders=1)
    assert "nvcc compiles 1 kernel for sm_90" in caplog.messages
    assert "emulating matmul on the CPU, once" in caplog.messages


def test_timing_the_unscheduled_program_is_a_phase_of_a_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, LOGGER.name)
    measurer = Scripted([3e-6, 2e-6], 5e-6)
    sl.tune(sl.workloads.matmul(8, 8, 8), trials=2, measurer=measurer, progress=False)
    assert any("timing the unscheduled program" in line for line in caplog.messages)
