# Everything here sets itself up: a .venv from whatever python3 >= 3.11 is found,
# filled by uv where it is installed and by pip otherwise.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
READY := $(VENV)/.ready

define find_python
$$( for p in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11 python; do \
      if "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then command -v "$$p"; break; fi; \
    done )
endef

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(READY): pyproject.toml
	@python="$(find_python)"; \
	if [ -z "$$python" ]; then echo "kubeauth needs Python 3.11 or newer; none found (set PYTHON=/path/to/python3)" >&2; exit 1; fi; \
	echo "Setting up $(VENV) with $$python"; \
	if [ -n "$(UV)" ]; then \
	  uv venv -q --clear --python "$$python" $(VENV) && \
	  uv pip install -q --python $(BIN)/python -e '.[all]' --group dev; \
	else \
	  "$$python" -m venv --clear $(VENV) && \
	  $(BIN)/python -m pip install -q --upgrade 'pip>=25.1' && \
	  $(BIN)/python -m pip install -q -e '.[all]' --group dev; \
	fi
	@touch $@

.PHONY: venv
venv: $(READY) ## Make the virtual environment only

.PHONY: demo
demo: $(READY) ## Replace credentials under load on a local API server, live (DEMO_ARGS='--mode cert')
	@$(BIN)/kubeauth demo $(DEMO_ARGS)

.PHONY: config
config: $(READY) ## Show what your kubeconfig (or a bundled sample) resolves to
	@$(BIN)/python examples/show_config.py

.PHONY: test
test: $(READY) ## Run the tests (only Python is needed)
	$(BIN)/python -m pytest -q -m "not load and not e2e" -n auto --dist loadfile --cov --cov-report= --cov-fail-under=0
	$(BIN)/coverage report

.PHONY: test-load
test-load: $(READY) ## Run the load and stampede tests
	$(BIN)/python -m pytest -q -m load --timeout 300

.PHONY: test-oracle
test-oracle: $(READY) oracle ## Compare with client-go (needs Go) and kubectl, where found
	$(BIN)/python -m pytest -q -m oracle -rs

.PHONY: e2e
e2e: $(READY) ## Run the end-to-end tests: a real API server, real plugins, real clients (needs Go and Debian's packages)
	$(BIN)/python -m tests.e2e.prepare
	$(BIN)/python -m pytest -q -m e2e tests/e2e -n 2 --dist loadfile $(E2E_ARGS)
	kubectl=$$($(BIN)/python -m tests.e2e.prepare --kubectl); \
	PATH="$$(dirname "$$kubectl"):$$PATH" $(BIN)/python -m pytest -q -m oracle tests/differential

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
$(ORACLE): tests/differential/oracle/main.go tests/differential/oracle/go.mod
	cd $(@D) && CGO_ENABLED=0 go build -trimpath -o $(@F) .

.PHONY: test-all
test-all: ## Run the tests on every CPython >= 3.11 of this machine
	@bash tests/every_python.sh

.PHONY: lint
lint: $(READY) ## ruff, mypy --strict and pyright
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright

.PHONY: format
format: $(READY) ## Let ruff put the code in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: bench
bench: $(READY) ## Compare with the alternatives
	$(BIN)/python -m benchmarks.cost
	$(BIN)/python -m benchmarks.inner
	$(BIN)/python -m benchmarks.renewals
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.kubeconfig

.PHONY: clean
clean: ## Remove what make made
	rm -rf .venv .venv-* .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache dist $(ORACLE)
