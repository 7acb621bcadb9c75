# Everything runs in a virtual environment of this checkout. `make demo` is where to start.
PYTHON ?= python3
VENV ?= .venv
TORCH ?= torch==2.13.0
BIN := $(VENV)/bin
JOBS ?= $(shell nproc)
READY := $(VENV)/.ready
export OMP_NUM_THREADS ?= 2

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

test-all: $(READY)  ## also the slow matrices and a second torch
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not vllm"

check: $(READY)  ## lint, format, types, import contracts, docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo 2>/dev/null || $(BIN)/lint-imports

bench: $(READY)
	$(BIN)/python -m benchmarks

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache
