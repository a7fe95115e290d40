from __future__ import annotations

import os
from pathlib import Path

import pytest

# Speaks the protocol without schedlang, whose import takes seconds; ``wrong`` is how it errs.
WORKER = """
import json, os, struct, sys
prefix = struct.Struct("!4sIQ")
known = None
while head := sys.stdin.buffer.read(prefix.size):
    _, size, _ = prefix.unpack(head)
    request = json.loads(sys.stdin.buffer.read(size))
    reply = {"ok": True, "blobs": [], "pid": os.getpid(), "serial": request["serial"]}
    wrong = request.get("wrong")
    if wrong == "none":
        del reply["serial"]
    if wrong == "old":
        reply["serial"] = known
    if wrong == "number":
        reply["pid"] = "1"
    known = request["serial"]
    text = json.dumps(reply).encode()
    os.write(1, (prefix.pack(b"SLW1", len(text), 0) + text) * (2 if wrong == "twice" else 1))
"""


@pytest.fixture
def tiny_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a program that speaks the protocol."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    (tmp_path / "erring_worker.py").write_text(WORKER)
    return "erring_worker"
