"""Libraries: where they can be written, what they record, and which are loaded."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te

import schedlang as sl
from schedlang.targets import BuildError, LibraryError, Target, build_callable, export_library
from schedlang.targets.cpu import features
from schedlang.targets.cpu.target import CPUTarget
from schedlang.tvm import codegen
from tests.targets.deployment import modules
from tests.targets.deployment.conftest import A, B
from tests.targets.odd_names import GROUPS
from tests.targets.programs import matmul, scheduled_matmul


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that loads fast: ``B = A`` reversed."""
    return export_library(modules.shuffle(), "cpu", tmp_path_factory.mktemp("small") / "small.so")


def reversed_by(path: Path) -> bool:
    out = np.zeros(64, np.float32)
    sl.load(path)(np.arange(64, dtype=np.float32), out)
    return out.tolist() == list(range(63, -1, -1))


def rewritten(path: Path, to: Path, **changes: Any) -> Path:
    """A copy of a library with another record, of the same length."""
    content, text = path.read_bytes(), codegen.find_text(path)
    assert text is not None
    record = json.loads(text)
    for name, value in changes.items():
        where = record if name in record else record["target"]
        where[name] = {**where[name], **value} if isinstance(value, dict) else value
    new = json.dumps(record, separators=(",", ":")).encode()
    assert len(new) <= len(text), "shorten the change"
    to.write_bytes(content.replace(text.encode(), new.ljust(len(text))))
    return to


def test_a_library_is_called_like_a_built_program(library: Path) -> None:
    program = sl.load(library)
    out = np.zeros_like(A)
    program(A, B, out)
    np.testing.assert_allclose(out, A @ B, rtol=1e-4, atol=1e-4)
    assert repr(program) == repr(build_callable(scheduled_matmul(matmul())))
    with pytest.raises(TypeError, match="argument 1 is a list"):
        program(A, [1.0], out)
    program.main(A, B, out)


def test_a_library_of_several_functions(tmp_path: Path) -> None:
    program = sl.load(export_library(modules.several(), "cpu", tmp_path / "several.so"))
    ones, out = np.ones(8, np.float32), np.zeros(8, np.float32)
    program.twice(ones, out)
    program["add_to"](ones, out)
    np.testing.assert_array_equal(out, 3)


def test_tensors_may_have_any_name(tmp_path: Path) -> None:
    """Words of C, and names that no language takes; messages about arguments have them too."""
    names = [*GROUPS["odd"], *GROUPS["keywords"][:20]]
    inputs = [te.placeholder((4,), "float32", name=name) for name in names]
    last = te.compute((4,), lambda i: inputs[0][i] + inputs[-1][i], name="D")
    workload = sl.workloads.from_te([*inputs, last])
    program = sl.load(export_library(workload.mod, "cpu", tmp_path / "names.so"))
    arrays, out = [np.ones(4, np.float32) for _ in names], np.zeros(4, np.float32)
    for call in (program, build_callable(workload.mod)):
        out[:] = 0
        call(*arrays, out)
        np.testing.assert_array_equal(out, 2)
    for place, name in enumerate(names):
        wrong = [*arrays, out]
        wrong[place] = np.ones(3, np.float32)
        with pytest.raises(ValueError, match=re.escape(f"takes {name}: float32[4]")):
            program(*wrong)


def test_an_applied_module_is_exported(tmp_path: Path) -> None:
    sl.open_database(tmp_path / "empty.db").close()
    with pytest.warns(sl.UntunedWarning):
        applied = sl.apply(modules.several(), tmp_path / "empty.db", "cpu")
    program = sl.load(export_library(applied, "cpu", tmp_path / "applied.so"))
    assert set(program.functions) == {"add_to", "twice"}


def test_an_archive_is_linked_where_it_is_loaded(tmp_path: Path) -> None:
    path = export_library(modules.shuffle(), "cpu", tmp_path / "small.tar")
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        assert reversed_by(path)
    finally:
        tmp_path.chmod(0o755)
    assert [file.name for file in tmp_path.iterdir()] == ["small.tar"]


def test_numbers_of_the_record_are_those_of_the_target(library: Path) -> None:
    record = json.loads(codegen.find_text(library) or "")
    target = Target("cpu")
    assert record["target"]["threads"] == target.cores
    assert record["target"]["key"] == target.key
    assert set(record["target"]["features"]) == target.features & features.KNOWN
    assert record["software"] == codegen.versions()
    assert [one["parallel"] for one in record["functions"]] == [True]


def test_a_new_library_takes_the_place_of_one_in_use(tmp_path: Path) -> None:
    path = export_library(modules.shuffle(), "cpu", tmp_path / "kernel.so")
    before = sl.load(path)
    export_library(modules.copy("float32"), "cpu", path)
    after = sl.load(path)
    given, old, new = np.arange(64, dtype=np.float32), *np.zeros((2, 64), np.float32)
    before(given, old)
    after(given, new)
    assert old.tolist() == given[::-1].tolist() and new.tolist() == given.tolist()
    assert [file.name for file in tmp_path.iterdir()] == ["kernel.so"]


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("none/kernel.so", "cannot write .*kernel.so: there is no folder .*none; create it first"),
        ("kernel", r"name must end with one of \.so, \.dylib, \.dll, \.tar.* such as kernel\.so"),
        ("kernel.o", r"name must end with .* such as kernel\.so"),
        ("libkernel.so.1", r"name must end with .* such as libkernel\.so"),
        ("", "name must end with"),
        ("folder.so", "cannot write .*folder.so: this is a folder"),
    ],
)
def test_where_no_library_can_be_written(tmp_path: Path, place: str, message: str) -> None:
    (tmp_path / "folder.so").mkdir()
    with pytest.raises(LibraryError, match=message):
        export_library(modules.shuffle(), "cpu", tmp_path / place)
    with pytest.raises(ValueError, match=message):
        Target("cpu").export_library(modules.shuffle(), str(tmp_path / place))
    assert [file.name for file in tmp_path.iterdir()] == ["folder.so"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to read-only folders")
def test_a_read_only_folder_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with pytest.raises(LibraryError, match="the folder .* is read-only"):
        export_library(modules.shuffle(), "cpu", tmp_path / "kernel.so")


def test_a_linker_that_fails_leaves_the_old_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = export_library(modules.shuffle(), "cpu", tmp_path / "kernel.so")

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("Compilation error: no space left")

    monkeypatch.setattr(tvm.runtime.Executable, "export_library", fail)
    with pytest.raises(BuildError, match="cannot write .*kernel.so: .*no space left"):
        export_library(modules.copy("float32"), "cpu", path)
    monkeypatch.undo()
    assert reversed_by(path) and len(list(tmp_path.iterdir())) == 1


def test_what_is_no_library_is_refused(tmp_path: Path, small: Path) -> None:
    content = small.read_bytes()
    files = {"text.so": b"hello", "empty.so": b"", "cut.so": content[:-200], "text.tar": b"hello"}
    files["head.so"] = content[:4096]
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "kernel.txt").write_bytes(content)
    for name, message in {
        "none.so": "there is no such file",
        ".": "it is a folder",
        "text.so": "it is no kernel that schedlang exported",
        "empty.so": "it is no kernel",
        "cut.so": "its end is missing; copy or export it again",
        "head.so": "its end is missing",
        "text.tar": "cannot link .*text.tar",
        "kernel.txt": "its name must end with",
    }.items():
        with pytest.raises(LibraryError, match=message):
            sl.load(tmp_path / name)


def test_a_library_of_tvm_is_told(tmp_path: Path) -> None:
    path = tmp_path / "plain.so"
    tvm.compile(modules.shuffle(), target="llvm").export_library(str(path))
    with pytest.raises(
        LibraryError, match="no kernel that schedlang exported.*tvm.runtime.load_module"
    ):
        sl.load(path)


@pytest.mark.parametrize("package", ["tvm", "ffi"])
def test_another_version_of_tvm_is_refused(tmp_path: Path, small: Path, package: str) -> None:
    other = rewritten(small, tmp_path / "other.so", software={package: "0.8"})
    with pytest.raises(
        LibraryError, match=r"other.so: the library was made with apache-tvm\S* 0.8"
    ):
        sl.load(other)
    major, minor, *_ = codegen.versions()[package].split(".")
    assert reversed_by(
        rewritten(small, tmp_path / "patch.so", software={package: f"{major}.{minor}"})
    )


def test_a_library_for_another_cpu_is_refused(tmp_path: Path, small: Path) -> None:
    other = rewritten(small, tmp_path / "other.so", features=["amx-tile", "avx2", "sme"])
    here = features.host_features()
    missing = [one for one in ("amx-tile", "avx2", "sme") if one not in here]
    with pytest.raises(sl.TargetError, match=f"lacks {', '.join(missing)}: .* end the process"):
        sl.load(other)
    with pytest.raises(sl.TargetError, match="architecture s390, and this one is"):
        sl.load(rewritten(small, tmp_path / "other.so", architecture="s390"))
    with pytest.raises(sl.TargetError, match="SVE registers have 9999 bits"):
        sl.load(rewritten(small, tmp_path / "other.so", sve_bits=9999, mcpu="x"))
    assert reversed_by(rewritten(small, tmp_path / "less.so", features=[]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 7}, "has a record of version 7, and this schedlang reads version 1"),
        ({"functions": 3}, "what the library records is damaged"),
        ({"device_type": "x"}, "what the library records is damaged"),
        ({"target": 1}, "what the library records is damaged"),
    ],
)
def test_a_damaged_record_is_told(
    tmp_path: Path, small: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(LibraryError, match=message):
        sl.load(rewritten(small, tmp_path / "other.so", **changes))


def test_a_library_for_a_named_target_needs_no_more_than_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Target("x86/avx2")
    if target.missing_features():
        pytest.skip(f"needs {target.missing_features()}")
    path = export_library(modules.shuffle(), target, tmp_path / "kernel.so")
    needed = set(json.loads(codegen.find_text(path) or "")["target"]["features"])
    assert "avx2" in needed and not any(name.startswith("avx512") for name in needed)
    monkeypatch.setattr(features, "host_features", lambda: frozenset(needed))
    CPUTarget.check_deployment(json.loads(codegen.find_text(path) or "")["target"])
    assert reversed_by(path)
