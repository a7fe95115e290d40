# Each target makes the virtual environment when it is missing, and installs when pyproject.toml has
# changed. An environment that somebody else made is used as it is, and nothing of it is deleted.
PYTHON ?= python3
VENV := .venv
MADE := $(VENV)/.made-by-make
STAMP := $(VENV)/.installed
TEST_STAMP := $(VENV)/.installed-test
BENCH_STAMP := $(VENV)/.installed-bench
DOCS_STAMP := $(VENV)/.installed-docs
RUN := $(VENV)/bin/python

.PHONY: demo test test-all coverage lint docs release-check beside-tilelang pythons next-tvm bench \
	gpu-bundle clean

demo: $(STAMP)
	$(RUN) examples/demo.py

# Two processes; the tests of a file share their workers, so they stay in one. tests/conftest.py says
# in which order files start. `make test` takes under 20 minutes on two cores; it leaves out tests
# that are marked as slow: large tables of programs, each page of docs/, killed runs, what several
# machines do. CI runs `make test`; `.ci/run all` runs the slow ones too.
TESTS := -m pytest tests -n 2 --dist loadfile --no-loadscope-reorder

test: $(TEST_STAMP)
	$(RUN) $(TESTS) -m "not slow"

test-all: $(TEST_STAMP)
	$(RUN) $(TESTS)

# Lines and branches that no test reaches; `make test` measures none, as that makes it slower.
coverage: $(TEST_STAMP)
	$(RUN) -m pytest tests --cov --cov-report=term-missing:skip-covered

lint: $(STAMP)
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

# The documentation as a site: build/docs/site/index.html. Warnings are errors.
docs: $(DOCS_STAMP)
	$(RUN) -m sphinx -q -W --keep-going -c docs/site -b html docs build/docs

# Builds wheel and sdist, installs the wheel into a fresh environment, and runs the demo with it.
release-check:
	PYTHON=$(PYTHON) .ci/release

# Makes an environment with TileLang, which needs another TVM, and runs exported libraries there;
# installs the command with pipx. docs/versions.md has what was seen.
beside-tilelang: $(STAMP)
	PYTHON=$(PYTHON) RUN=$(RUN) .ci/beside

# The tests, without the slow ones, on each of python3.12 and python3.13 that is found.
pythons:
	.ci/pythons

# Which names the newest TVM of the registry has moved, and which tests fail with it. It may fail.
next-tvm:
	PYTHON=$(PYTHON) .ci/next-tvm

# Files that start with an underscore are parts of benchmarks, not benchmarks.
bench: $(BENCH_STAMP)
	@set -e; for file in $(sort $(filter-out benchmarks/_%,$(wildcard benchmarks/*.py))); do \
		echo "== $$file --quick"; $(RUN) $$file --quick; \
	done

# What a GPU host without network needs: docs/gpu.md.
gpu-bundle:
	benchmarks/gpu_bundle.sh pack build/gpu-bundle

clean:
	@if [ -e $(MADE) ]; then rm -rf $(VENV); \
	elif [ -e $(VENV) ]; then echo "$(VENV) stays: make did not make it"; fi
	rm -rf .venv-ci build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name .venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

# The front ends' packages: without them their tests are skipped.
$(TEST_STAMP): $(STAMP)
	$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[test-optional]'
	touch $@

# The peers that the benchmarks compare with are large: only `make bench` installs them.
$(BENCH_STAMP): $(STAMP)
	$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	touch $@

$(DOCS_STAMP): $(STAMP)
	$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $@

$(STAMP): pyproject.toml
	@[ -e $(VENV) ] || { mkdir -p $(VENV) && touch $(MADE); }
	[ -x $(RUN) ] || $(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@
