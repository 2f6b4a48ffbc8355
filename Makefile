# Two commands do everything on a fresh machine: `make run` and `make test`. `make help` lists the rest.
PYTHON ?= python3
BIN := .venv/bin
CONFIG ?= examples/quickstart/gateway.yaml
DATA ?= data

.PHONY: help run test test-fast check format lock bench bench-retrieval models classifier clean serve-env dev-env

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

run: serve-env ## set up and serve the quickstart on http://127.0.0.1:8080
	@exec $(BIN)/grounding-gateway serve --config $(CONFIG)

test: dev-env check ## set up and run everything: style, types, architecture, the whole suite
	$(BIN)/python -m pytest -q -n 2 --dist loadgroup tests

test-fast: dev-env ## the inner loop: no gateway, no Postgres, no long searches
	$(BIN)/python -m pytest -q -m "not slow" tests

check: dev-env ## ruff, mypy --strict, import contracts, house rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: dev-env ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: ## write the lock files anew (needs uv)
	$(PYTHON) scripts/bootstrap.py serve --lock

bench: dev-env ## our gateway beside a bare relay, in one run
	$(BIN)/python -m bench.gateway

bench-retrieval: dev-env ## encode and search over 10,000 passages
	$(BIN)/python -m bench.retrieval

clean: ## remove what was installed and made (not .data, which holds the ledger)
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

serve-env:
	@$(PYTHON) scripts/bootstrap.py serve

dev-env:
	@$(PYTHON) scripts/bootstrap.py dev
