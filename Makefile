# Everything runs in a virtual environment of this checkout. `make demo` is where to start.
PYTHON ?= python3
VENV ?= .venv
TORCH ?= torch==2.13.0
NEWER ?= torch==2.14.1
BIN := $(VENV)/bin
JOBS ?= $(shell nproc)
VENV_VLLM ?= .venv-vllm
VLLM ?= vllm==0.33.0
READY := $(VENV)/.ready
export OMP_NUM_THREADS ?= 1

.PHONY: demo setup test test-all test-vllm check bench format clean

demo: $(READY)  ## set up, record a small program with a fault, and be told its cause
	$(BIN)/python fixtures/demo/run.py

setup: $(READY)

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade pip
	$(BIN)/python -m pip install -q "$(TORCH)"
	$(BIN)/python -m pip install -q "$(TORCH)" -e ".[dev]"
	touch $(READY)

test: $(READY)  ## the tests, in parallel
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow and not vllm"

test-all: $(READY)  ## also the slow matrices and the corpus, and all that compiles on a second torch
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not vllm"
	$(MAKE) setup VENV=$(VENV)-newer TORCH=$(NEWER)
	$(VENV)-newer/bin/python -m pytest -n $(JOBS) --dist worksteal -m "torch and not vllm"

test-vllm:  ## against real vLLM on a CPU; VENV_VLLM=DIR names an environment that has it
	[ -x $(VENV_VLLM)/bin/python ] || $(PYTHON) -m venv $(VENV_VLLM)
	$(VENV_VLLM)/bin/python -c "from importlib.util import find_spec as f; assert f('vllm') and f('pytest')" 2>/dev/null || { \
	  $(VENV_VLLM)/bin/python -m pip install -q --upgrade pip && \
	  $(VENV_VLLM)/bin/python -m pip install -q --no-deps "$(VLLM)" && \
	  $(VENV_VLLM)/bin/python -m pip install -q -r tests/vllm/requirements.txt; }
	$(VENV_VLLM)/bin/python -m pip install -q --no-deps -e .
	$(VENV_VLLM)/bin/python -m pytest -m vllm tests/vllm

check: $(READY)  ## lint, format, types, import contracts, docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m pytest tests/unit/test_docs.py

bench: $(READY)
	$(BIN)/python -m benchmarks

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache
