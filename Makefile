# Two commands do everything on a fresh machine: `make run` and `make test`. `make help` lists the rest.
PYTHON ?= python3
BIN := .venv/bin
CONFIG ?= examples/quickstart/gateway.yaml
DATA ?= data
FOLDER ?= /var/tmp/grounding-gateway-image
TRAIN := .venv-train/bin

.PHONY: help run test test-fast check format lock bench bench-retrieval image-rehearsal models classifier entailment clean serve-env dev-env train-env

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
	$(BIN)/python -m pytest -q -m "not slow" tests/house

format: dev-env ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: ## write the lock files anew (needs uv)
	$(PYTHON) scripts/bootstrap.py serve --lock

bench: dev-env ## our gateway beside a bare relay, in one run
	$(BIN)/python -m bench.gateway

bench-retrieval: dev-env ## encode and search over 10,000 passages
	$(BIN)/python -m bench.retrieval

image-rehearsal: dev-env ## the Dockerfile's steps without a container engine, size and trial (root, debootstrap; FOLDER=...)
	$(BIN)/python scripts/image_rehearsal.py --folder $(FOLDER) $(REHEARSAL)

models: train-env ## export the encoder to int8 ONNX again (downloads torch)
	$(TRAIN)/python -m retrieval.train.export --out retrieval/models/minilm-l6-v2

classifier: dev-env ## train the fact classifier again: make classifier DATA=folder-with-labelled-facts
	$(BIN)/python -m checks.train_features --data $(DATA) --out checks/models/facts-features

entailment: train-env ## train the cross-encoder beside it again, hours: make entailment DATA=folder-with-labelled-facts
	$(TRAIN)/python -m checks.train.entailment --data $(DATA) --out checks/models/facts-entailment

clean: ## remove what was installed and made (not .data, which holds the ledger)
	rm -rf .venv .venv-train .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

serve-env:
	@$(PYTHON) scripts/bootstrap.py serve

train-env:
	@test -x $(TRAIN)/python || $(PYTHON) -m venv .venv-train
	$(TRAIN)/pip install -q "torch==2.13.0" -e ".[train]"

dev-env:
	@$(PYTHON) scripts/bootstrap.py dev
