# Every target sets up what it needs. `make` alone lists them.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
UV     ?= uv
PIP    := $(BIN)/python -m pip --disable-pip-version-check --no-input
PYTEST_WORKERS ?= auto
PYTEST_ARGS    ?=

RUN_STAMP := $(VENV)/.installed-run
DEV_STAMP := $(VENV)/.installed-dev
LOCK      := $(UV) pip compile pyproject.toml - --quiet --universal --python-version 3.11 \
             --generate-hashes --no-emit-index-url --no-annotate --no-header
BUILD     := setuptools>=80

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo up doctor test bench chaos screenshots check format lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(DEV_STAMP) ## Make .venv with everything pinned by hash (only when a lock changed)

demo: $(RUN_STAMP) ## Show a whole review on this machine; KEEP=1 leaves it running
	@$(BIN)/coven-github demo $(if $(filter-out 0,$(KEEP)),--keep)

up: $(RUN_STAMP) ## Run everything in this terminal with ./coven-github.toml
	@$(BIN)/coven-github up

doctor: $(RUN_STAMP) ## Check the configuration and this machine
	@$(BIN)/coven-github doctor

test: $(DEV_STAMP) ## Run all tests; PYTEST_ARGS="-k word" for some
	@$(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist loadgroup $(PYTEST_ARGS)

bench: $(DEV_STAMP) ## Measure overhead, checkouts and redaction, as ratios; PARTS=checkout for one
	@$(BIN)/python -m tests.bench $(PARTS)

chaos: $(DEV_STAMP) ## Play the long fault runs: 500 random histories and every kill
	@COVEN_FAULT_SEEDS=500 COVEN_FAULT_RUNS=12 COVEN_CHAOS=all $(BIN)/python -m pytest -n $(PYTEST_WORKERS) \
		--dist loadgroup tests/chaos tests/integration/test_publish_faults.py $(PYTEST_ARGS)

screenshots: $(DEV_STAMP) ## Take the pictures of docs/images again (needs /usr/bin/chromium)
	@$(BIN)/python -m tests.support.screenshots
	@$(BIN)/python -m tests.support.screenshots_github

check: $(DEV_STAMP) ## Lint, format, types, import contracts, lock files (all, then the verdict)
	@failed=; \
	for tool in "ruff check --no-cache ." "ruff format --check ." mypy lint-imports \
	            "python -m pytest -q -p no:cacheprovider tests/unit/test_packaging_lock.py"; do \
		echo "== $$tool"; $(BIN)/$$tool || failed="$$failed [$$tool]"; \
	done; \
	if [ -n "$$failed" ]; then echo "check failed:$$failed"; exit 1; else echo "check passed"; fi

format: $(DEV_STAMP) ## Format the code and apply the safe fixes
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

lock: ## Pin the newest allowed versions again (needs uv)
	@command -v $(UV) >/dev/null || { echo "make lock needs uv on the PATH, or UV=/path/to/uv"; exit 1; }
	@echo "$(BUILD)" | $(LOCK) --upgrade -o requirements.lock
	@echo "$(BUILD)" | $(LOCK) --upgrade -c requirements.lock --extra dev -o requirements-dev.lock

clean: ## Remove .venv and everything that tools leave behind
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is missing; install Python 3.11 or newer (PYTHON=/path/to/python3 names another one)"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is older than 3.11; set PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) can't make virtual environments; on Debian or Ubuntu: apt-get install python3-venv"; exit 1; }
	@echo "Making $(VENV)"
	@$(PYTHON) -m venv $(VENV)

# A lock is its own constraint too: older pips else look for a newer release of what is asked for with
# extras, and stop at its missing hash.
# The project itself is installed editable: the pinned setuptools builds it, nothing is fetched.
$(RUN_STAMP): requirements.lock pyproject.toml | $(BIN)/python
	@echo "Installing what it needs to run"
	@$(PIP) install --quiet --require-hashes -r requirements.lock -c requirements.lock
	@$(PIP) install --quiet --no-build-isolation --no-deps --no-index --editable .
	@touch $@

$(DEV_STAMP): requirements-dev.lock $(RUN_STAMP)
	@echo "Installing what the tests need"
	@$(PIP) install --quiet --require-hashes -r requirements-dev.lock -c requirements-dev.lock
	@touch $@
