# Two commands matter: `make demo` and `make test`. Each does all its own set-up.
.DEFAULT_GOAL := help
BIN := .venv/bin
BY_FILE := --dist loadfile --no-loadscope-reorder

.PHONY: help setup demo test check fix test-unit test-broker test-spark test-simulation test-faults test-versions soak docs bench-wire bench-race bench-many bench-openings bench-translate bench-failover lock clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

setup: ## Java, the virtual environment, Kafka's jars; only what is missing
	@scripts/setup

demo: setup ## two local clusters, records in, records out
	@$(BIN)/heliograph demo

test: check ## everything CI runs: format, lint, types, all tests
	$(BIN)/pytest -n 3 $(BY_FILE)

check: setup ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

fix: setup ## format, and repair what lint can repair
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test-unit: setup ## the tests that need no broker; seconds
	$(BIN)/pytest src tests/unit

test-broker: setup ## the tests on real brokers
	$(BIN)/pytest tests/broker

docs: setup ## write docs/reference from the code
	$(BIN)/python -m scripts.reference

test-spark: setup ## the whole engine on real Spark
	$(BIN)/pytest tests/spark

test-simulation: setup ## histories of lost, late and repeated requests, on an in-memory broker; minutes
	$(BIN)/pytest tests/simulation tests/contract

test-faults: setup ## kill -9, freeze and wake copiers, then compare both logs
	$(BIN)/pytest tests/faults

test-versions: setup ## links from and to older versions of Kafka: 2.8, and 3.9 with and without ZooKeeper; minutes
	$(BIN)/pytest tests/versions

soak: setup ## the same for longer: make soak SECONDS=3600
	HELIOGRAPH_SIMULATION_EXAMPLES=1000 $(BIN)/pytest -n 2 $(BY_FILE) tests/simulation --timeout 0
	HELIOGRAPH_FAULT_SECONDS=$(or $(SECONDS),600) $(BIN)/pytest -n 2 $(BY_FILE) tests/faults tests/soak --timeout 0

bench-wire: setup ## fetch and fetch+produce against kafka-python and against the broker's own limit
	$(BIN)/python -m bench.wire

bench-race: setup ## Heliograph against MirrorMaker 2, side by side; 40 minutes on a quiet machine
	$(BIN)/python -m bench.race $(RACE)

bench-many: setup ## a thousand partitions: how soon all are copied, and what a new topic costs
	$(BIN)/python -m bench.many $(MANY)

bench-openings: setup ## thousands of partitions in one task: how soon all are opened, and handed over at 50 ms
	$(BIN)/python -m bench.openings $(OPENINGS)

bench-translate: setup ## a million offsets translated; records read again after a failover, against MirrorMaker 2
	$(BIN)/python -m bench.translate

bench-failover: setup ## from heliograph failover to its end: 100 partitions, 50 groups, the source killed
	$(BIN)/python -m bench.failover $(FAILOVER)

lock: setup ## resolve the dependencies anew into requirements.lock
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
		--no-header --no-annotate --extra dev pyproject.toml -o requirements.lock

clean: ## remove the virtual environment and caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
