# Everything lives in .venv inside the clone; nothing else is installed.
PYTHON ?= python3
VENV := .venv
export PIP_DISABLE_PIP_VERSION_CHECK := 1
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CUDA_EXTRA ?= cu13
# Tests side by side: one worker a processor, eight at most. WORKERS=0 runs them in one process.
WORKERS ?= logical
PYTEST = $(BIN)/pytest -q -m "not gpu" -n $(WORKERS) --maxprocesses 8 --dist worksteal

.PHONY: setup demo test test-all check bench corpus schemas reference clean

setup: $(STAMP)

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "error: Python 3.11 or newer is needed, and $(PYTHON) is older or not there"; \
	  echo "  -> make setup PYTHON=python3.12"; exit 2; }
	@$(PYTHON) -m venv $(VENV) || { \
	  echo "error: cannot make a virtual environment with $(PYTHON)"; \
	  echo "  -> install its venv module (Debian: apt-get install python3-venv)"; exit 2; }
	@$(BIN)/pip install --quiet --upgrade "pip>=24" "setuptools>=80"
	@PYTHONWARNINGS=ignore $(BIN)/pip install --quiet --editable ".[dev,$(CUDA_EXTRA)]"
	@touch $(STAMP)

demo: setup
	@$(BIN)/cuda-harness generate --model offline --executor cpu \
	  "Softmax over each row of a float32 matrix with 512 rows and 1000 columns."

test: setup
	@$(PYTEST)

# The long way: whole corpora, all kill points, and what is marked `long`.
test-all: setup
	@$(PYTEST) --corpus

check: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: setup
	@$(BIN)/python -m tests.bench

# CORPUS="--kind honest --seeds 20" judges the honest bundles with twenty seeds each.
corpus: setup
	@$(BIN)/python -m tests.adversarial $(CORPUS)

schemas: setup
	@$(BIN)/python -m tests.schemas

reference: setup
	@$(BIN)/python -m tests.reference

clean:
	@rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
