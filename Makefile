# Everything here sets itself up: a .venv from whatever python3 >= 3.11 is found,
# filled by uv where it is installed and by pip otherwise.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
UV := $(shell command -v uv 2>/dev/null)
READY := $(VENV)/.ready
DOCS_VENV ?= .venv-docs
DOCS_READY := $(DOCS_VENV)/.ready
# Some shells set it. Tests start hundreds of programs, and each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

define find_python
$$( for p in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11 python; do \
      if "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then command -v "$$p"; break; fi; \
    done )
endef

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

# $(call new_venv,directory,what to install): a virtual environment with that in it.
define new_venv
@python="$(find_python)"; \
if [ -z "$$python" ]; then echo "kubeauth needs Python 3.11 or newer; none found (set PYTHON=/path/to/python3)" >&2; exit 1; fi; \
echo "Setting up $(1) with $$python"; \
if [ -n "$(UV)" ]; then \
  uv venv -q --clear --python "$$python" $(1) && \
  uv pip install -q --python $(1)/bin/python $(2); \
else \
  "$$python" -m venv --clear $(1) && \
  $(1)/bin/python -m pip install -q --upgrade 'pip>=25.1' && \
  $(1)/bin/python -m pip install -q $(2); \
fi
@touch $@
endef

$(READY): pyproject.toml
	$(call new_venv,$(VENV),-e '.[all]' --group dev)

$(DOCS_READY): pyproject.toml
	$(call new_venv,$(DOCS_VENV),--group docs)

.PHONY: venv
venv: $(READY) ## Make the virtual environment only

.PHONY: demo
demo: $(READY) ## Replace credentials under load on a local API server, live (DEMO_ARGS='--mode cert')
	@$(BIN)/kubeauth demo $(DEMO_ARGS)

.PHONY: config
config: $(READY) ## Show what your kubeconfig (or a bundled sample) resolves to
	@$(BIN)/python examples/show_config.py

.PHONY: test
test: $(READY) ## Run the fast tests, before each commit (only Python is needed)
	$(PYTEST) -q --quick -m "not load and not e2e and not site" -n auto --dist worksteal

.PHONY: test-full
test-full: $(READY) ## Run all tests but those of load and end to end (COVERAGE=1: report branch coverage, which takes longer)
	$(PYTEST) -q -m "not load and not e2e and not site" -n auto --dist worksteal \
	  $(if $(COVERAGE),--cov --cov-report= --cov-fail-under=0)
	$(if $(COVERAGE),$(BIN)/coverage report)

.PHONY: test-stress
test-stress: $(READY) ## Run all tests five times beside two CPU burners (STRESS_ARGS='--runs 1 --pause')
	$(BIN)/python -m scripts.stress $(STRESS_ARGS)

# Credentials that live for four seconds: this one has the machine to itself.
BY_THE_CLOCK := tests/credentials/test_refresh_under_load.py
.PHONY: test-load
test-load: $(READY) ## Run the load and stampede tests
	$(PYTEST) -q -m load --timeout 300 -n 2 --dist worksteal --ignore $(BY_THE_CLOCK)
	$(PYTEST) -q -m load --timeout 300 $(BY_THE_CLOCK)

.PHONY: test-oracle
test-oracle: $(READY) oracle ## Compare with client-go (needs Go) and kubectl, where found
	$(PYTEST) -q -m oracle -rs -n 2 --dist worksteal

.PHONY: e2e
e2e: $(READY) ## Run the end-to-end tests: a real API server, real plugins, real clients (needs Go and Debian packages)
	$(BIN)/python -m tests.e2e.prepare
	$(run_e2e)

.PHONY: e2e-full
e2e-full: $(READY) ## The same, with the third-party plugins that take minutes to build
	$(BIN)/python -m tests.e2e.prepare --full
	$(run_e2e)

define run_e2e
$(PYTEST) -q -m e2e tests/e2e -rs -n 2 --dist worksteal $(E2E_ARGS)
kubectl=$$($(BIN)/python -m tests.e2e.prepare --kubectl); \
PATH="$$(dirname "$$kubectl"):$$PATH" $(PYTEST) -q -m oracle tests/differential -n 2 --dist worksteal
endef

.PHONY: attacks
attacks: $(READY) ## Run the tests with hostile input, and write the table of them in docs/security.md
	$(BIN)/python -m scripts.attack_table -n 2 --dist worksteal

SECONDS ?= 600
.PHONY: soak
soak: $(READY) ## Wear it out: a server that is killed, connections that are cut, a plugin that fails (SECONDS=600)
	$(BIN)/python -m tests.e2e.prepare
	$(BIN)/python -m tests.soak --seconds $(SECONDS) $(SOAK_ARGS)

ORACLE := tests/differential/oracle/oracle
.PHONY: oracle
oracle: ## Build the client-go oracle that test-oracle compares with
	@if command -v go >/dev/null; then $(MAKE) --no-print-directory $(ORACLE); \
	else echo "oracle: no Go here, client-go is not compared with" >&2; fi
$(ORACLE): tests/differential/oracle/main.go tests/differential/oracle/images.go tests/differential/oracle/go.mod
	cd $(@D) && CGO_ENABLED=0 go build -trimpath -o $(@F) .

.PHONY: test-all
test-all: ## Run the tests on every CPython >= 3.11 of this machine
	@bash tests/support/every_python.sh

.PHONY: generate
generate: $(READY) ## Write the modules that are copies: sync from async, httpx2 from httpx
	$(BIN)/python scripts/generate.py

.PHONY: lint
lint: $(READY) ## Generated copies, ruff, mypy --strict and pyright
	$(BIN)/python scripts/generate.py --check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright

.PHONY: format
format: $(READY) ## Let ruff put the code in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: docs
docs: $(READY) $(DOCS_READY) ## Build the documentation into site/, and look it over
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict
	$(PYTEST) -q -m site tests/project/test_site.py
	@echo "The documentation is in site/index.html"

PORT ?= 8000
.PHONY: docs-serve
docs-serve: $(DOCS_READY) ## Show the documentation on loopback, as you write it (PORT=8000)
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs serve --livereload --dev-addr 127.0.0.1:$(PORT)

.PHONY: bench
bench: $(READY) ## Compare with the alternatives, for docs/benchmarks.md (QUICK=1: a glance; ROUNDS=1: less of it)
	$(BIN)/python -m benchmarks $(if $(QUICK),--quick) $(if $(ROUNDS),--rounds $(ROUNDS)) $(BENCH_ARGS)

.PHONY: clean
clean: ## Remove what make made
	rm -rf .venv .venv-* site .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist $(ORACLE)
