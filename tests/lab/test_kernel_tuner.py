"""Recorded spaces as T1, T4 and cache files of Kernel Tuner."""

from __future__ import annotations

import itertools
import json
import keyword
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import schedlang as sl
from schedlang.lab import RecordedSpace, to_kernel_tuner, to_t1, to_t4
from schedlang.lab.kernel_tuner import ABSENT, INVALIDITY, configurations_of
from schedlang.lab.recording import sites_of
from tests.lab.made_up_space import made_up

WORKLOAD = sl.workloads.matmul(32, 32, 32)
FAILURES = [one for one in sl.Status if one is not sl.Status.OK]
AWKWARD = ("time", "a:b", "a_b", "in", "2x", "block_size_x")


@sl.module
def awkward(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """Draw from sites whose names are no identifiers, or mean something to others."""
    for site in AWKWARD:
        sch.sample_categorical([3, 7], name=site)
    rows = sch.sample_perfect_tile(sch.get_loops(block)[0], 2, name="rows")
    if sch.choose("split", [False, True]):
        sch.split(sch.get_loops(block)[0], rows)
        sch.annotate(block, "depth", sch.sample_categorical([-1, 4], name="depth"))


@pytest.fixture(scope="module", params=["default space", "awkward names"])
def recorded(request: pytest.FixtureRequest) -> RecordedSpace:
    """The first has several sketches, the second many ways to each program."""
    space = sl.Space([awkward])
    if request.param == "default space":
        # Of a named machine, as the part depends on its vectors.
        space = sl.default_space("x86/avx2").restricted(WORKLOAD, size=40)
    return made_up(space, WORKLOAD, FAILURES[: 3 if request.param != "default space" else None])


def test_a_configuration_is_the_decisions_of_a_way(recorded: RecordedSpace) -> None:
    space = configurations_of(recorded)
    assert len(space.programs) == len(recorded.ways) > len(recorded.programs)
    options = {one.site: one.options for one in space.parameters}
    for way, (row, program) in zip(recorded.ways, space.programs.items(), strict=True):
        assert program == way.program
        sites = sites_of(recorded.ways.skeletons[way.skeleton])
        decided = {one.site: way.decisions[place] for place, one in enumerate(sites)}
        for parameter, value in zip(space.parameters, row, strict=True):
            decision = decided.get(parameter.site)
            if decision is None:
                assert value == ABSENT
            elif isinstance(decision, tuple):
                assert value == "x".join(map(str, decision))
            else:
                assert str(value) == str(decision)
                assert not options[parameter.site] or options[parameter.site][decision]
            assert value in parameter.values


def test_the_conditions_admit_the_configurations_and_no_others(recorded: RecordedSpace) -> None:
    space = configurations_of(recorded)
    t1 = to_t1(recorded)["ConfigurationSpace"]
    conditions = [compile(one["Expression"], "T1", "eval") for one in t1["Conditions"]]
    names = [one["Name"] for one in t1["TuningParameters"]]
    values = [eval(one["Values"]) for one in t1["TuningParameters"]]
    admitted = {
        row
        for row in itertools.product(*values)
        if all(eval(one, {}, dict(zip(names, row, strict=True))) for one in conditions)
    }
    assert admitted == set(space.programs)
    for condition in t1["Conditions"]:
        used = set(re.findall(r"[A-Za-z_]\w*", re.sub(r"'[^']*'", "", condition["Expression"])))
        assert used - {"in"} == set(condition["Parameters"])
        assert len(condition["Parameters"]) < len(names)


def test_names_are_identifiers_that_are_free() -> None:
    recorded = made_up(sl.Space([awkward]), WORKLOAD, ())
    found = {
        one["Site"]: one["Name"]
        for one in to_t1(recorded)["ConfigurationSpace"]["TuningParameters"]
    }
    assert set(AWKWARD) < set(found)
    assert len(set(found.values())) == len(found)
    assert found["a:b"] == "a_b" and found["a_b"] == "a_b_" and found["2x"] == "_2x"
    for name in found.values():
        assert name.isidentifier() and not keyword.iskeyword(name)
        assert name not in ("time", "block_size_x")


def check_t1(document: Any) -> None:
    """The rules of ``T1/1.0.0/input-schema.json`` of Kernel Tuner, for what is in the document."""
    space, kernel = document["ConfigurationSpace"], document["KernelSpecification"]
    for one in space["TuningParameters"]:
        assert all(isinstance(one[key], str) for key in ("Name", "Type", "Values"))
        assert one["Type"] in ("int", "uint", "float", "bool", "string")
    for one in space["Conditions"]:
        assert isinstance(one["Expression"], str)
        assert all(isinstance(name, str) for name in one["Parameters"])
    general = document["General"]
    assert isinstance(general["FormatVersion"], int)
    assert general["TimeUnit"] in ("Nanoseconds", "Microseconds", "Milliseconds", "Seconds")
    assert general["OutputFormat"] in ("JSON", "XML")
    assert kernel["Language"] in ("OpenCL", "CUDA", "Vulkan", "Hypertuner")
    assert isinstance(kernel["Device"]["Name"], str)
    assert all(isinstance(kernel[key], str) for key in ("KernelName", "KernelFile"))
    assert isinstance(kernel.get("SimulationInput", ""), str)
    for size in ("GlobalSize", "LocalSize"):
        assert all(isinstance(text, str) for text in kernel[size].values()) and kernel[size]["X"]
    assert kernel["Arguments"] == []


def check_t4(document: Any) -> None:
    """The rules of ``T4/1.0.0/results-schema.json`` and ``metadata-schema.json``."""
    assert re.fullmatch(r"\d+\.\d+\.\d+", document["schema_version"])
    metadata = document["metadata"]
    assert isinstance(metadata["hardware"]["hardware_description"], list)
    assert isinstance(metadata["environment"]["requirements"], list)
    assert isinstance(document["results"], list)
    words = ("timeout", "compile", "runtime", "correctness", "constraints", "correct")
    for result in document["results"]:
        assert {"configuration", "times", "invalidity", "correctness"} <= set(result)
        assert isinstance(result["configuration"], dict) and isinstance(result["objectives"], list)
        assert result["invalidity"] in words
        assert isinstance(result["correctness"], int | float)
        times = result["times"]
        assert isinstance(times["runtimes"], list)
        assert all(
            isinstance(times[key], int | float)
            for key in ("compilation", "benchmark", "framework", "search_algorithm", "validation")
        )
        for one in result["measurements"]:
            assert isinstance(one["name"], str) and isinstance(one["unit"], str)
            assert isinstance(one["value"], int | float | str | list)


def stored(document: Any) -> Any:
    """Return a document as it is read from its file."""
    return json.loads(json.dumps(document, allow_nan=False))


def test_t1_keeps_its_schema(recorded: RecordedSpace) -> None:
    document = stored(to_t1(recorded, "mm.tvmscript", "mm.json"))
    check_t1(document)
    assert document["KernelSpecification"]["SimulationInput"] == "mm.json"
    assert document["KernelSpecification"]["KernelFile"] == "mm.tvmscript"
    assert to_t1(recorded)["KernelSpecification"]["KernelFile"] == "matmul.tvmscript"
    assert "SimulationInput" not in to_t1(recorded)["KernelSpecification"]


def test_t4_keeps_its_schema_and_has_what_was_measured(recorded: RecordedSpace) -> None:
    document = stored(to_t4(recorded))
    check_t4(document)
    assert document["metadata"]["timeunit"] == "milliseconds"
    results = {tuple(one["configuration"].values()): one for one in document["results"]}
    space = configurations_of(recorded)
    assert len(document["results"]) == len(results) == len(recorded.ways)
    assert results.keys() == space.programs.keys()
    assert document["results"][0]["invalidity"] == "correct"
    for row, result in results.items():
        program = recorded.programs[space.programs[row]]
        measured = {one["name"]: one for one in result["measurements"]}
        assert recorded.program(measured["program"]["value"]) is program
        assert result["invalidity"] == INVALIDITY[program.status]
        assert result["correctness"] == (program.status is sl.Status.OK)
        assert result["times"]["compilation"] == 1e3 * program.build_seconds
        assert result["times"]["benchmark"] == 1e3 * program.run_seconds
        assert result["times"]["runtimes"] == pytest.approx([1e3 * one for one in program.samples])
        if program.samples:
            assert measured["time"] == {
                "name": "time",
                "value": pytest.approx(1e3 * program.latency),
                "unit": "ms",
            }
        else:
            assert measured["time"]["value"].endswith("Config")
            assert measured["status"]["value"] == program.status
            assert measured["message"]["value"] == program.message


def test_every_status_has_a_word() -> None:
    assert set(INVALIDITY) == set(sl.Status)
    assert [one for one, word in INVALIDITY.items() if word == "correct"] == [sl.Status.OK]


def test_a_cache_file_has_every_configuration(recorded: RecordedSpace) -> None:
    text = json.dumps(to_kernel_tuner(recorded), allow_nan=False)
    assert text.endswith("}}}")  # by this, Kernel Tuner knows that the file is complete
    document = json.loads(text)
    space = configurations_of(recorded, ("time", "block_size_x"))
    assert document["tune_params_keys"] == list(document["tune_params"]) == space.names
    assert len(document["cache"]) == len(space.programs)
    for row, number in space.programs.items():
        entry, program = document["cache"][",".join(map(str, row))], recorded.programs[number]
        assert [entry[name] for name in space.names] == list(row)
        assert all(
            value in document["tune_params"][name]
            for name, value in zip(space.names, row, strict=True)
        )
        assert ("__error__" in entry) == (not program.samples)
        if program.samples:
            assert entry["time"] == pytest.approx(1e3 * program.latency)
        else:
            assert entry["__error__"] == entry["time"]
            compiled = program.status not in (sl.Status.BUILD_ERROR, sl.Status.BUILD_TIMEOUT)
            refused = program.status is sl.Status.REJECTED
            wanted = "RuntimeFailed" if compiled else "CompilationFailed"
            assert entry["time"] == ("Invalid" if refused else wanted) + "Config"


def test_a_gpu_has_its_language() -> None:
    recorded = made_up(sl.Space([awkward]), WORKLOAD, ())
    assert to_t1(recorded)["KernelSpecification"]["Language"] == "OpenCL"
    of_gpu = replace(recorded, target_key="cuda/sm_90")
    assert to_t1(of_gpu)["KernelSpecification"]["Language"] == "CUDA"


@pytest.mark.parametrize(
    "strategy", ["genetic_algorithm", "greedy_mls", "pso", "simulated_annealing"]
)
def test_kernel_tuner_searches_it(recorded: RecordedSpace, strategy: str, tmp_path: Path) -> None:
    """Its simulation takes the space from the cache file, and from the T1 file with conditions."""
    tuner = pytest.importorskip("kernel_tuner", reason="needs the package kernel-tuner")
    cache = tmp_path / "cache.json"
    cache.write_text(json.dumps(to_kernel_tuner(recorded)), encoding="utf-8")
    (tmp_path / "mm.tvmscript").write_text(recorded.workload.mod.script(), encoding="utf-8")
    t1 = tmp_path / "t1.json"
    t1.write_text(json.dumps(to_t1(recorded, "mm.tvmscript", str(cache))), encoding="utf-8")
    known = {1e3 * one.latency for one in recorded.programs}
    options = {"max_fevals": 8}
    found, _ = tuner.tune_cache(
        str(cache), strategy=strategy, strategy_options=dict(options), quiet=True
    )
    times = [one["time"] for one in found if "__error__" not in one]
    assert times and known.issuperset(times)
    _, t4 = tuner.tune_kernel_T1(
        t1, simulation_mode=True, strategy=strategy, strategy_options=dict(options)
    )
    check_t4(t4 | {"metadata": to_t4(recorded)["metadata"]})
    rows = {tuple(one["configuration"].values()) for one in t4["results"]}
    assert rows & set(configurations_of(recorded).programs)
