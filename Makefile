# Two commands for a newcomer: `make demo` and `make test`. Both set up .venv by themselves.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready-$(shell cat requirements-dev.txt pyproject.toml 2>/dev/null | sha256sum | cut -c1-12)

# Every command of the tests is a process of its own: without its compiled modules each would start in twice the time.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: score setup check test demo lab bench-engine bench-fleet bench-harvest bench-configure soak clean lock lint fast
.DEFAULT_GOAL := help

help:            ## show the targets
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 24

setup: $(STAMP)  ## make .venv from the locked requirements

$(STAMP): requirements-dev.txt pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the locked requirements into $(VENV) (about a minute, once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@rm -f $(VENV)/.ready-*; touch $@

check: setup     ## ruff, mypy --strict, ansible-lint, house test, fast tests (under a minute)
	@$(MAKE) --no-print-directory -j2 lint fast

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

fast: setup
	@$(BIN)/python -m pytest -q -n auto -m "not journey and not nspawn and not lab and not soak and not slow"

test: setup      ## everything that has to pass before a change lands (under ten minutes on two cores)
	@$(MAKE) --no-print-directory lint
	@$(BIN)/python -m pytest -q -n 4 --dist loadfile --no-loadscope-reorder --durations=25 -m "not lab and not soak"

demo: setup      ## eight simulated machines, five faults, one command, repaired, the same command again
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m provision.sim.demo

lab: setup       ## slow real peers (root, minutes)
	@$(BIN)/python -m pytest -m lab

bench-configure: setup  ## what a wave costs the controller, and whether the throttle holds (root, minutes)
	@$(BIN)/python -m benchmarks.configure $(BENCH)

bench-engine: setup   ## the engine and the store by themselves, to 10,000 nodes (BENCH="--nodes 100 300" is quick)
	@$(BIN)/python -m benchmarks.engine $(BENCH)

bench-fleet: setup    ## a bring-up of 512 machines: writes, lists, memory, wall (BENCH="--nodes 32 --speed 30" is quick)
	@$(BIN)/python -m benchmarks.bringup $(BENCH)

bench-harvest: setup  ## the harvest against badfish, sushy and redfish (hours; BENCH="--nodes 32 --rounds 1" is quick)
	@$(BIN)/python -m benchmarks.harvest $(BENCH)

soak: setup      ## long seeded runs
	@$(BIN)/python -m pytest -m soak -n auto

CORPUS ?= ../shared/triage/corpus-dev.jsonl
score: setup     ## judge a labelled corpus (CORPUS=FILE), beside a keyword floor
	@$(BIN)/python -m tests.triage.score $(CORPUS)

lock:            ## resolve requirements*.in again (needs uv)
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -q requirements-dev.in -o requirements-dev.txt
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -q requirements.in -c requirements-dev.txt -o requirements.txt
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -q requirements-distributed.in -c requirements-dev.txt -o requirements-distributed.txt

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
