# Two commands: `make demo` and `make test`. Both set everything up first; the second time that costs nothing.

PYTHON ?= python3.11
ifeq ($(shell command -v $(PYTHON) 2>/dev/null),)
PYTHON := python3
endif
BIN := .venv/bin
STAMP := .venv/ready
.DEFAULT_GOAL := help
# Tests start hundreds of processes: without compiled files, each compiles tflow anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test test-full vscode quick lint types tests test-mypy-range test-native pin docs test-wheel search mutants learn learn-all curves peers bench bench-rl bench-ray bench-check bench-ppo bench-sac bench-cheetah bench-collapse bench-guards bench-checkpoint bench-all-reduce soak bench-dqn bench-pong bench-where clean bench-guard bench-start bench-limit bench-spark bench-flow bench-growth bench-memory bench-native

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
	$(BIN)/pytest -q -n 2 -m 'not ray and not full and not native'

# Files stay together: what they share, such as a cluster of several nodes, is started once.
tests: setup
	$(BIN)/pytest -q -n 2 -m 'not ray and not full and not native'
	HYPOTHESIS_PROFILE=ray $(BIN)/pytest -q -n 2 --dist loadfile -m 'ray and not full and not native'

vscode:  ## Build and lint the extension for Visual Studio Code (needs npm)
	cd editors/vscode && npm ci --no-audit --no-fund && npm run build && npm run lint

test-full: lint types vscode  ## Everything: as test, and all laws on Ray, more examples, slow runs (before a release; 15 minutes)
	@echo 'On top of make test: five times as many examples per property, and these tests:'
	@$(BIN)/pytest --collect-only -qq -m full
	@command -v "$${CHROMIUM:-chromium}" chromium-browser google-chrome >/dev/null || { echo 'Reports are looked at in Chromium: apt-get install chromium, or CHROMIUM=/path/to/it'; exit 1; }
	HYPOTHESIS_PROFILE=full $(BIN)/pytest -q -n 2 -m 'not ray and not native'
	HYPOTHESIS_PROFILE=ray $(BIN)/pytest -q -n 2 --dist loadfile -m 'ray and not native'

search: setup  ## A longer random search for counterexamples (not in CI; EXAMPLES=5000 per law takes 20 minutes)
	HYPOTHESIS_PROFILE=search $(BIN)/pytest -q -n 2 -m 'not ray' tests/laws

test-mypy-range: setup  ## The mypy plugin with the lowest mypy that it supports, in an environment of its own (one minute)
	test -x .venv-mypy/bin/python || $(PYTHON) -m venv .venv-mypy
	.venv-mypy/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt numpy typing-extensions cloudpickle lazy_loader pytest
	.venv-mypy/bin/python -m pip install --quiet --disable-pip-version-check 'mypy==1.18.1'
	.venv-mypy/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	.venv-mypy/bin/python -m tests.types.plugin_runs compare

# gymnax 1.0 takes gymnasium below 1.4, so that one is not pinned.
.venv-native/ready: pyproject.toml constraints.txt
	test -x .venv-native/bin/python || $(PYTHON) -m venv .venv-native
	grep -v '^gymnasium==' constraints.txt > .venv-native/constraints.txt
	.venv-native/bin/python -m pip install --quiet --disable-pip-version-check -c .venv-native/constraints.txt -e '.[check,testing,brax,envpool]' \
		jax==0.10.2 gymnax==1.0.1 brax==0.14.2 envpool==1.2.5 pytest-asyncio
	touch $@

test-native: .venv-native/ready  ## Envs of gymnax, Brax and EnvPool, in an environment of its own (five minutes, 3 GB)
	.venv-native/bin/python -m pytest -q -m native tests/rl/test_native_envs.py

pin: setup  ## Pin the messages of the mypy plugin, and what checkers print for streams, again
	$(BIN)/python -m tests.types.plugin_runs pin
	$(BIN)/python -m tests.types.streams

docs: setup  ## Build the documentation in site/: open site/index.html; its search needs a server (half a minute)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Those of these that are on this machine.
PYTHONS ?= python3.11 python3.12 python3.13

test-wheel: setup  ## Build wheel and source archive, and try the wheel in a new environment of each of PYTHONS (minutes; 5 GB each)
	$(BIN)/python tests/quality/wheel.py $(PYTHONS)

MODULE ?= tflow/runtime/gather.py

mutants: setup  ## Mutation testing of one module or several, such as MODULE=tflow/runtime/gather.py (not in CI; 1 to 10 minutes)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[mutants]'
	$(BIN)/python tests/quality/mutants.py $(MODULE)

bench: setup  ## Driver cost per item, and simulated schedules per second
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/schedules.py

ALGO ?= ppo-cartpole
SEED ?= 0
RUNTIME ?= local

learn: setup  ## Train a cell to its budget, and note it: ALGO=ppo-cartpole SEED=0 RUNTIME=local (minutes; benchmarks/learn.py)
	$(BIN)/python -m benchmarks.learn $(ALGO) --seed $(SEED) --runtime $(RUNTIME)

learn-all: setup  ## Run every cell that was not run yet, one seed of each first (many hours; stop and start it as you like)
	$(BIN)/python -m benchmarks.learn --all

curves: setup  ## Fill docs/results.md with what was learned and measured, and draw the curves
	$(BIN)/python -m benchmarks.curves

peers: .venv-sb3/ready .venv-rllib/ready  ## Environments for Stable-Baselines3 and RLlib, which pin other versions than ours (three minutes)

# Its envs are ours: the same versions of MuJoCo and Box2D.
.venv-sb3/ready: constraints.txt
	$(PYTHON) -m venv .venv-sb3
	.venv-sb3/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0 stable-baselines3==2.9.2 \
		gymnasium==1.4.0 numpy==2.4.6 mujoco imageio packaging box2d pygame-ce
	touch $@

.venv-rllib/ready:
	$(PYTHON) -m venv .venv-rllib
	.venv-rllib/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0 'ray[rllib]==2.60.0' gymnasium==1.2.2 numpy==2.4.6 \
		ale-py==0.12.1 opencv-python-headless==5.0.0.93
	touch $@

bench-ppo: setup peers  ## PPO against Stable-Baselines3, RLlib and a single file (20 minutes; runs that were made are kept)
	$(BIN)/python -m benchmarks.ppo

bench-sac: setup .venv-sb3/ready  ## SAC against Stable-Baselines3 and a single file (25 minutes; as above)
	$(BIN)/python -m benchmarks.sac

bench-cheetah: setup .venv-sb3/ready  ## SAC and TD3 on HalfCheetah against Stable-Baselines3's curves (an hour; as above)
	$(BIN)/python -m benchmarks.cheetah

bench-collapse: setup .venv-sb3/ready  ## PPO and A2C on CartPole after they have solved it, next to Stable-Baselines3's (25 minutes; as above)
	$(BIN)/python -m benchmarks.collapse

bench-guards: setup  ## What each guard of the defaults is good for (40 minutes; as above)
	$(BIN)/python -m benchmarks.guards

bench-checkpoint: setup  ## What a checkpoint costs, with replay of usual sizes (one minute, 6 GB of memory)
	$(BIN)/python -m benchmarks.checkpoint

bench-all-reduce: setup  ## What averaging gradients costs between actors, on the driver, and by torch.distributed (two minutes)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.all_reduce

soak: setup  ## An hour of IMPALA and one of Ape-X on Ray, with workers, replay, learner and driver killed at random
	$(BIN)/python -m benchmarks.soak impala --minutes 60
	$(BIN)/python -m benchmarks.soak apex --minutes 60

bench-dqn: setup .venv-sb3/ready  ## DQN against Stable-Baselines3 (6 minutes; as above)
	$(BIN)/python -m benchmarks.dqn

bench-pong: setup peers  ## IMPALA on Pong against RLlib's (6 minutes; as above)
	$(BIN)/python -m benchmarks.impala_pong

bench-rl: setup  ## Rollouts against bare envs, and prioritised replay (four minutes; see benchmarks/replay.py for peers)
	$(BIN)/python -m benchmarks.rollouts
	$(BIN)/python -m benchmarks.replay

bench-where: setup  ## Where the time of PPO on CartPole and of IMPALA on Pong goes (one minute)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.where

bench-check: setup  ## What checking plans costs, with and without the plugin (five minutes)
	$(BIN)/python -m benchmarks.check

bench-ray: setup  ## Plans on Ray against loops by hand and ray.util.iter (seven minutes)
	$(BIN)/python -m benchmarks.ray_overhead

bench-start: setup peers  ## Seconds to the first update, and memory, against Stable-Baselines3 and RLlib (two minutes)
	$(BIN)/python -m benchmarks.start

.venv-jax/ready:
	$(PYTHON) -m venv .venv-jax
	.venv-jax/bin/python -m pip install --quiet --disable-pip-version-check 'jax[cpu]>=0.4' optax numpy==2.4.6
	touch $@

bench-limit: setup .venv-jax/ready  ## PPO against one XLA program, the limit of a CPU (two minutes; as above)
	$(BIN)/python -m benchmarks.limit

# Java 17 is needed: openjdk-17-jre-headless.
.venv-spark/ready:
	$(PYTHON) -m venv .venv-spark
	.venv-spark/bin/python -m pip install --quiet --disable-pip-version-check pyspark==4.3.0 torch==2.13.0 gymnasium==1.4.0 numpy==2.4.6
	touch $@

bench-spark: setup .venv-spark/ready  ## PPO's loop on Spark and on Ray, as in the paper (15 minutes; needs Java 17; as above)
	$(BIN)/python -m benchmarks.spark

bench-flow: setup  ## The two figures of the paper: sampling and IMPALA, as plans and as loops by hand (three minutes; as above)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.flow

bench-growth: setup  ## What grows with workers, items, plans, envs and replay (ten minutes, 8 GB of memory)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.growth

bench-memory: setup .venv-sb3/ready  ## What memory training takes, by process (8 minutes; as above)
	$(BIN)/python -m benchmarks.memory

bench-native: .venv-native/ready  ## Rollouts with gymnax and EnvPool against these alone (two minutes)
	OMP_NUM_THREADS=1 .venv-native/bin/python -m benchmarks.native_envs

bench-guard: setup  ## Key ratios against those committed: fails on a loss of more than 15 % (two minutes)
	$(BIN)/python -m benchmarks.guard

clean:  ## Remove the environment and all caches
	rm -rf .venv .venv-mypy .venv-native .venv-sb3 .venv-rllib .venv-jax .venv-spark .tflow_cache .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist site *.egg-info
