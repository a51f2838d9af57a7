# Two commands: `make demo` and `make test`. Both set everything up first; the second time that costs nothing.

PYTHON ?= python3.11
ifeq ($(shell command -v $(PYTHON) 2>/dev/null),)
PYTHON := python3
endif
BIN := .venv/bin
STAMP := .venv/ready
.DEFAULT_GOAL := help

.PHONY: help setup demo test quick lint types tests test-mypy-range pin search mutants learn curves bench bench-rl bench-ray bench-check clean

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(STAMP)  ## Build the environment in .venv

# Keyed on a stamp: pip alone takes seconds even when nothing has changed.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo 'tflow needs Python 3.11 or newer: make PYTHON=/path/to/python'; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(STAMP)

demo: setup  ## Train PPO on CartPole-v1 to a mean return of 475, with a live view
	@$(BIN)/tflow train ppo --env CartPole-v1 --stop-return 475 --eval-every 10000

test: lint types tests  ## Format, lint, types, doctests and tests

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: setup
	$(BIN)/mypy
	$(BIN)/basedpyright

quick: lint types  ## As test, without what runs on Ray
	$(BIN)/pytest -q -n 2 -m 'not ray'

tests: setup
	$(BIN)/pytest -q -n 2 -m 'not ray'
	HYPOTHESIS_PROFILE=ray $(BIN)/pytest -q -m ray

search: setup  ## A longer random search for counterexamples (not in CI; EXAMPLES=5000 per law takes 20 minutes)
	HYPOTHESIS_PROFILE=search $(BIN)/pytest -q -n 2 tests/laws

test-mypy-range: setup  ## The mypy plugin with the lowest mypy that it supports, in an environment of its own (one minute)
	test -x .venv-mypy/bin/python || $(PYTHON) -m venv .venv-mypy
	.venv-mypy/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt numpy typing-extensions cloudpickle pytest
	.venv-mypy/bin/python -m pip install --quiet --disable-pip-version-check 'mypy==1.18.1'
	.venv-mypy/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	.venv-mypy/bin/python -m tests.types.plugin_runs compare

pin: setup  ## Pin the messages of the mypy plugin anew
	$(BIN)/python -m tests.types.plugin_runs pin

MODULE ?= tflow/runtime/gather.py

mutants: setup  ## Mutation testing of one module, such as MODULE=tflow/runtime/gather.py (not in CI; 10 to 20 minutes)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[mutants]'
	$(BIN)/python tests/quality/mutants.py $(MODULE)

bench: setup  ## Driver cost per item, and simulated schedules per second
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/schedules.py

ALGO ?= ppo
SEED ?= 0
RUNTIME ?= local

learn: setup  ## Train until a target is reached, and note it: ALGO=ppo SEED=0 RUNTIME=local (minutes; benchmarks/learn.py)
	$(BIN)/python -m benchmarks.learn $(ALGO) --seed $(SEED) --runtime $(RUNTIME)

curves: setup  ## Fill the table of docs/results.md with what was learned
	$(BIN)/python -m benchmarks.curves

bench-rl: setup  ## Rollouts against bare envs, and prioritised replay (four minutes; see benchmarks/replay.py for peers)
	$(BIN)/python -m benchmarks.rollouts
	$(BIN)/python -m benchmarks.replay

bench-check: setup  ## What checking plans costs, with and without the plugin (five minutes)
	$(BIN)/python -m benchmarks.check

bench-ray: setup  ## Plans on Ray against loops by hand and ray.util.iter (seven minutes)
	$(BIN)/python -m benchmarks.ray_overhead

clean:  ## Remove the environment and all caches
	rm -rf .venv .venv-mypy .tflow_cache .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist *.egg-info
