"""A new kind of target: a folder beside ``targets/cpu``, and a line in the table of kinds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import te
from tvm.target import Target as TVMTarget

import schedlang as sl
from schedlang.targets import Target, as_target, build_callable, export_library, kinds
from schedlang.testing.target import TargetContract
from schedlang.workloads import from_te
from tests.targets.programs import matmul

TARGET = '''
"""A signal processor; here is an emulator of it, which runs LLVM's code."""

from __future__ import annotations

from collections.abc import Mapping

from dataclasses import dataclass, field
from typing import Any

from tvm import te
from tvm.target import Target as TVMTarget

import schedlang as sl
from schedlang.targets.dsp.measurer import InProcess
from schedlang.tvm.codegen import CodeGenerator


@sl.module
def tile(sch: sl.Schedule, block: sl.BlockRV, *, bound: int) -> None:
    """for i, j: C  ->  for i0: for i1: for j0: for j1: C"""
    for name, loop in zip("ij", sch.get_loops(block)):
        tile = sch.sample_perfect_tile(loop, 2, bound, name=f"{name}:{sch.get(block).name_hint}")
        sch.split(loop, tile)


@dataclass(frozen=True)
class DSPTarget(sl.Target):
    """A signal processor with ``registers`` registers."""

    name: str = "dsp"
    registers: int = 16
    kind: str = field(default="dsp", init=False)

    tvm_kind = "c"

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return ("dsp", "dsp/old", "signal/slow")

    @classmethod
    def from_tvm_target(cls, target: TVMTarget) -> DSPTarget:
        return cls()

    @property
    def key(self) -> str:
        return f"{self.name}/registers={self.registers}"

    def default_space(self) -> sl.Space:
        return sl.Space([tile(bound=self.registers)], name="dsp")

    def tvm_target(self) -> TVMTarget:
        return TVMTarget({"kind": "c"})

    @classmethod
    def code_generator(cls, spec: Mapping[str, Any]) -> CodeGenerator:
        return CodeGenerator(TVMTarget({"kind": "llvm", "num-cores": 1}))

    def check_present(self) -> None:
        if self.registers > 16:
            raise sl.TargetError(f"target {self.key!r} is not here: it has 16 registers")

    def measurer(self, workload: sl.Workload, *, verify: Any = True, seed: int = 0) -> InProcess:
        measurer = InProcess(self, seed)
        measurer.bind(workload)
        return measurer
'''

MEASURER = '''
"""Runs programs in this process."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np

import schedlang as sl


class InProcess(sl.Measurer):
    """Runs each candidate once, and compares its result with the unscheduled program's."""

    started = 0

    def __init__(self, target: sl.Target, seed: int) -> None:
        InProcess.started += 1
        self.closed = False
        self._target = target
        self._rng = np.random.default_rng(seed)

    def bind(self, workload: sl.Workload) -> None:
        super().bind(workload)
        self._tensors = [self._rng.random(arg.shape, arg.dtype) for arg in workload.args]
        self._kernels = {}
        self._expected = self._run(workload.mod)[1]

    def _run(self, module):
        text = module.script()
        if text not in self._kernels:
            self._kernels[text] = self._target.build(module)
        kernel = self._kernels[text]
        start = time.perf_counter()
        kernel(*self._tensors)
        return time.perf_counter() - start, self._tensors[-1].copy()

    def measure(self, candidates: Sequence[sl.Candidate]) -> Iterator[sl.Measurement]:
        for candidate in candidates:
            seconds, result = self._run(candidate.module)
            np.testing.assert_allclose(result, self._expected, rtol=1e-4)
            yield sl.Measurement(candidate.id, sl.Status.OK, (seconds,), verified=True)
'''


@pytest.fixture(scope="module")
def workload() -> sl.Workload:
    return matmul()


@pytest.fixture
def dsp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The folder ``targets/dsp`` and its line."""
    folder = tmp_path / "targets" / "dsp"
    folder.mkdir(parents=True)
    for name, text in {"__init__": "", "target": TARGET, "measurer": MEASURER}.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.setattr(sl.targets, "__path__", [*sl.targets.__path__, str(folder.parent)])
    monkeypatch.setitem(kinds.KINDS, "dsp", kinds.Kind("schedlang.targets.dsp.target:DSPTarget"))
    yield
    for name in [name for name in sys.modules if name.startswith("schedlang.targets.dsp")]:
        del sys.modules[name]
    vars(sl.targets).pop("dsp", None)


def test_a_run_on_a_made_up_target(dsp: None, workload: sl.Workload, tmp_path: Path) -> None:
    database = tmp_path / "tune.db"

    def tune() -> sl.TuneResult:
        return sl.tune(workload, "dsp", trials=6, finals=2, search="random", database=database)

    result = tune()
    started = sl.targets.dsp.measurer.InProcess.started
    assert started == 1 and result.finished == "6 trials" and result.best.finals is not None
    assert {record.target_key for record in result.records} == {"dsp/registers=16"}
    assert all(record.ok and record.provenance["tvm"] for record in result.records)
    assert result.reference_latency > 0

    a, b = (np.random.default_rng(0).random((64, 64), "float32") for _ in "ab")
    found = sl.best(workload, "dsp", database)
    for run in (result.best.build(), found.build(), build_callable(found.mod, "dsp")):
        out = np.empty((64, 64), "float32")
        run(a, b, out)
        np.testing.assert_allclose(out, a @ b, rtol=1e-4)
    assert found.export_library(tmp_path / "a.so").exists()
    assert export_library(found.mod, "dsp", tmp_path / "b.so").exists()
    applied = sl.apply(workload.mod, database, "dsp", strict=True)
    assert applied["main"].script() == found.mod["main"].script()
    # Other machines have no part in it.
    assert sl.best(workload, "cpu", database) is None
    # The same call goes by the records.
    assert (
        sl.tune(workload, "dsp", trials=6, finals=2, search="random", database=database).best
        is not None
    )
    assert sl.targets.dsp.measurer.InProcess.started == started


# Large enough that a schedule is faster than none.
SIDE = 128


def with_epilogue(*, subtract: bool) -> sl.Workload:
    """A @ B + D or A @ B - D: two programs of one family."""
    a, b, d = (te.placeholder((SIDE, SIDE), name=name) for name in "ABD")
    k = te.reduce_axis((0, SIDE), name="k")
    c = te.compute((SIDE, SIDE), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    e = te.compute(
        (SIDE, SIDE), lambda i, j: c[i, j] - d[i, j] if subtract else c[i, j] + d[i, j], name="E"
    )
    return from_te([a, b, d, e])


def test_similar_programs_are_measured_on_it(dsp: None, tmp_path: Path) -> None:
    database, other = tmp_path / "tune.db", with_epilogue(subtract=True)
    result = sl.tune(
        with_epilogue(subtract=False), "dsp", trials=3, finals=0, search="random", database=database
    )
    # Schedules that are slower than none would not be tried on a similar program.
    assert result.unscheduled is not None and result.unscheduled.id is not None
    with sl.open_database(database) as opened:
        opened.delete([result.unscheduled.id])
    found = sl.best(other, "dsp", database)
    # Which is the fastest is a matter of luck, but each was measured, on the right target.
    assert found is None or found.kind in ("family", "default") or found.unscheduled
    assert sl.targets.dsp.measurer.InProcess.started == 2
    with sl.open_database(database) as opened:
        assert all(record.verified for record in opened.query(other.key, "dsp/registers=16"))
        assert opened.query(other.key, "dsp/registers=16", limit=1)


def test_its_space_is_its_own(dsp: None, workload: sl.Workload) -> None:
    assert sl.default_space("dsp").name == "dsp"
    assert sl.default_space(Target("dsp", registers=4)).modules[0].options["bound"] == 4
    assert sl.default_space("cpu").name == "cpu"


def test_its_names_are_found_and_listed(dsp: None) -> None:
    target = Target("dsp", registers=8)
    assert type(target) is sl.targets.dsp.target.DSPTarget
    assert isinstance(target, Target) and target.kind == "dsp"
    assert type(Target("signal/slow")) is type(Target("slow")) is type(target)
    assert as_target(TVMTarget({"kind": "c"})) == Target("dsp") == Target.from_name("dsp")
    assert as_target(TVMTarget({"kind": "llvm"})).kind == "cpu"
    with pytest.raises(sl.TargetError, match="unknown target 'npu'; known: cpu, x86/.*, dsp, "):
        Target("npu")
    with pytest.raises(sl.TargetError, match="did you mean 'signal/slow'"):
        Target("signals/slow")
    with pytest.raises(sl.TargetError, match="'opencl'; only c, cuda, llvm is known"):
        as_target(TVMTarget({"kind": "opencl"}))


class TestDSP(TargetContract):
    @pytest.fixture
    def target(self, dsp: None) -> Target:
        return Target("dsp", registers=8)


def test_one_that_is_not_here(dsp: None, workload: sl.Workload) -> None:
    target = Target("dsp", registers=17)
    for use in (sl.tune, lambda *these: build_callable(workload.mod, target)):
        with pytest.raises(sl.TargetError, match="it has 16 registers"):
            use(workload, target)
    with pytest.raises(sl.TargetError, match="kind 'dsp', and this measures on CPUs"):
        sl.targets.LocalCPU(workload, "dsp")


def test_one_whose_measurer_needs_a_workload_has_no_workers_that_stay(dsp: None) -> None:
    said = r"'dsp' has no measurer without a workload \(AttributeError: .*\), .* must accept None"
    with pytest.raises(sl.TargetError, match=said) as caught:
        sl.measurer("dsp")
    assert isinstance(caught.value.__cause__, AttributeError)
    with pytest.raises(TypeError, match="unexpected keyword argument 'workers'"):
        sl.measurer("dsp", workers=1)


def test_a_kind_without_a_method_is_no_target(dsp: None) -> None:
    class Half(Target):
        kind = key = "half"

    with pytest.raises(TypeError, match="check_present"):
        Half("half")


class _Registered(Target):
    """A kind that another package might have."""

    kind = "made_up"


@pytest.fixture
def kept_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "KINDS", dict(kinds.KINDS))


@pytest.fixture
def own_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of a user's that has the target, and is importable."""
    folder = tmp_path / "signal_package"
    folder.mkdir()
    for name, text in {"__init__": "", "target": TARGET, "measurer": MEASURER}.items():
        (folder / f"{name}.py").write_text(
            text.replace("schedlang.targets.dsp.", "signal_package.")
        )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("signal_package")]:
        del sys.modules[name]


def test_a_registered_kind_is_known_by_name(
    kept_kinds: None, own_package: Path, workload: sl.Workload
) -> None:
    sl.targets.register("dsp", "signal_package.target:DSPTarget", other_names=("signal",))
    assert sl.Target("dsp").key == "dsp/registers=16"
    assert type(sl.Target("signal/slow")) is type(sl.Target("dsp"))
    result = sl.tune(workload, "dsp", trials=3, finals=0, search="random")
    assert {record.target_key for record in result.records} == {"dsp/registers=16"}
    with pytest.raises(sl.TargetError, match="did you mean 'dsp'"):
        sl.Target("signal")
    sl.targets.register("dsp", type(sl.Target("dsp")))  # the same again


def test_workers_import_a_registered_kind(
    kept_kinds: None, own_package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sl.targets.register("dsp", "signal_package.target:DSPTarget")
    spec = sl.Target("dsp").spec()
    monkeypatch.delitem(kinds.KINDS, "dsp")  # as in a worker
    assert kinds.code_generator(spec) is not None
    assert "class" not in sl.Target("cpu").spec()


def test_an_installed_package_brings_its_kind(own_package: Path) -> None:
    installed = own_package / "signal_package-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: signal-package\nVersion: 1.0\n"
    )
    entry = "[schedlang.targets]\ndsp = signal_package.target:DSPTarget\n"
    (installed / "entry_points.txt").write_text(entry)
    code = f"import sys; sys.path.insert(0, {str(own_package)!r}); import schedlang as sl; "
    code += "print(sl.Target('dsp').key, 'dsp' in sl.targets.kinds.all_names())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["dsp/registers=16", "True"]


@pytest.mark.parametrize(
    ("name", "target", "said"),
    [
        ("cpu", _Registered, "CPUTarget is called so already"),
        ("gpu", _Registered, "CUDATarget is called so already"),
        ("made up", _Registered, "give an identifier in lower case"),
        ("", _Registered, "give an identifier"),
        (3, _Registered, "give an identifier"),
        ("other", _Registered, "_Registered.kind is 'made_up'"),
        ("made_up", int, "is no subclass of schedlang.Target"),
        ("made_up", "no_colon", 'or "package.module:Class"'),
        ("made_up", 7, 'or "package.module:Class"'),
    ],
)
def test_what_cannot_be_registered(kept_kinds: None, name: Any, target: Any, said: str) -> None:
    before = dict(kinds.KINDS)
    with pytest.raises(sl.TargetError, match=said):
        sl.targets.register(name, target)
    assert before == kinds.KINDS


def test_a_registered_place_that_is_not_there(kept_kinds: None) -> None:
    sl.targets.register("nowhere", "no_such_package.target:Class")
    with pytest.raises(sl.TargetError, match="no_such_package.target:Class cannot be imported"):
        sl.Target("nowhere")
