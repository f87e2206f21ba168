# Everything a newcomer types. Each target makes what it needs; nothing is installed outside
# this folder and the user's cache folder.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
SHIM := eo_listener/jars/eo-listener-shim-0.1.0.jar
SHIM_SOURCES := jvm-shim/pom.xml $(shell find jvm-shim/src -name '*.java')
SPARKS := 3.5.7 4.0.0 4.2.0
# Each of these has a broker and a Spark of its own, 2 GB together; two leave a processor idle.
JOBS ?= 3
TESTS := -m tests.run --jobs $(JOBS)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help needs demo ready junit test test-all test-matrix campaign campaign-report check docs wording plain size site pictures jar wheel bench bench-full lock clean
.DELETE_ON_ERROR:

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo 'ARGS goes on to the command: make demo ARGS="--rows 20000 --keep", make test ARGS="-k status"'

needs:
	@.ci/needs "$(PYTHON)"

$(STAMP): requirements/dev.lock pyproject.toml hatch_build.py | needs
	@echo "== virtual environment in $(VENV) (first time: some minutes)"
	@$(BIN)/python -m pip --version > /dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --progress-bar on --require-hashes -r requirements/dev.lock
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(SHIM): $(SHIM_SOURCES) | $(STAMP)
	@echo "== shim jar"
	@jvm-shim/mvnw --quiet --batch-mode -f jvm-shim/pom.xml -DskipTests package
	@touch $@

demo: $(STAMP) $(SHIM) ## real flights through a real broker and a real query; ends at lag 0
	@$(BIN)/python -m examples.demo $(ARGS)

# Spark's Ivy may not be asked for the same jars by two programs at once: they must be there before.
%/.connector: %/.ready | $(SHIM)
	@echo "== Spark's Kafka connector, and archives of classes"
	@$*/bin/python -m tests.spark_session
	@$*/bin/python -m tests.broker.class_archive
	@touch $@

ready: check junit $(VENV)/.connector

junit: $(SHIM)
	@jvm-shim/mvnw --quiet --batch-mode -f jvm-shim/pom.xml test

test: ## every test but the slow ones and the campaigns
	@$(MAKE) --no-print-directory --jobs=4 ready
	@$(BIN)/python $(TESTS) --select "not slow and not campaign" $(ARGS)

test-all: ## the slow tests too, and the listener on Kafka 3.9; about an hour
	@$(MAKE) --no-print-directory --jobs=4 ready
	@$(BIN)/python $(TESTS) --select "not campaign" $(ARGS)
	@EO_TEST_KAFKA=3.9.2 $(BIN)/python $(TESTS) --select "not slow and not campaign" tests/kafka tests/listener $(ARGS)

campaign: ready ## every crash point and zombie of each sink, the model's long searches; goes on where it stopped
	@$(BIN)/python -m tests.campaign --jobs $(JOBS) $(ARGS)

campaign-report: $(STAMP) ## what of the campaign has passed, on which commits, and what is left
	@$(BIN)/python -m tests.campaign --report $(ARGS)

test-matrix: $(SPARKS:%=test-spark-%) ## the Spark tests on each supported Spark

test-spark-%: $(VENV)-spark-%/.ready $(SHIM) $(VENV)-spark-%/.connector
	@echo "== pyspark $*"
	@$(VENV)-spark-$*/bin/python $(TESTS) --select "spark and not slow and not campaign" $(ARGS)

# What Spark Connect needs is in the lock, for 4.2 newer in "pipelines", which older ones warn that
# they lack. Not "connect": that of 3.5 takes numpy 1, which has no wheel for Python 3.13.
$(VENV)-spark-%/.ready: $(STAMP)
	@echo "== virtual environment with pyspark $*"
	@$(PYTHON) -m venv --clear $(VENV)-spark-$*
	@$(VENV)-spark-$*/bin/python -m pip install --quiet --require-hashes -r requirements/dev.lock
	@$(VENV)-spark-$*/bin/python -m pip install --quiet "pyspark[pipelines]==$*"
	@$(VENV)-spark-$*/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.PRECIOUS: $(VENV)-spark-%/.ready %/.connector

check: $(STAMP) ## lint, types, layers and the documentation site
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache > $(VENV)/layers.txt || { cat $(VENV)/layers.txt; false; }
	@$(MAKE) --no-print-directory site > $(VENV)/site.txt 2>&1 || { cat $(VENV)/site.txt; false; }

# The pages lie as in the repository, so that a link leads to the same place in both.
site: $(STAMP) ## build the documentation site into build/site; fails if a link or a name leads nowhere
	@rm -rf build/pages && mkdir -p build/pages/tests build/pages/jvm-shim
	@cp -R *.md LICENSE docs examples build/pages
	@cp tests/README.md build/pages/tests && cp jvm-shim/README.md build/pages/jvm-shim
	@NO_COLOR=1 $(BIN)/zensical build --clean --strict

docs: $(STAMP) ## write docs/reference/runbook.md again, from docstrings and log lines
	@$(BIN)/python -m tests.documents

size: $(STAMP) ## code lines by folder, parameters and options; ARGS=PATH for another tree
	@$(BIN)/python -m tests.size $(ARGS)

pictures: $(STAMP) $(SHIM) ## make the pictures of README again, from a real demo; two minutes
	@$(BIN)/python -m tests.documents.pictures

jar: $(STAMP) $(SHIM) ## build the shim jar into eo_listener/jars
	@$(BIN)/eo-listener jar

wheel: $(STAMP) $(SHIM) ## put one wheel into dist/
	@rm -rf dist
	@$(BIN)/hatchling build -t wheel

bench: $(STAMP) $(SHIM) ## short benchmarks, under 10 minutes; results in benchmarks/results
	@$(BIN)/python -m benchmarks 3
	@$(BIN)/python -m benchmarks.sinks 1 300000
	@$(BIN)/python -m benchmarks.by_partition 1 400000
	@$(BIN)/python -m benchmarks.cluster 1 48000
	@$(BIN)/python -m benchmarks.guard
	@$(BIN)/python -m benchmarks.fixed_cost 5 1 100 1000
	@$(BIN)/python -m benchmarks.kafka_sink 1 400000 100000
	@$(BIN)/python -m benchmarks.lake iceberg append 1 400000
	@$(BIN)/python -m benchmarks.lake iceberg merge 1 400000

bench-full: $(STAMP) $(SHIM) ## long ones, two hours on an idle machine
	@$(BIN)/python -m benchmarks 25
	@$(BIN)/python -m benchmarks.sinks 10 300000
	@$(BIN)/python -m benchmarks.sinks 6 1500000
	@$(BIN)/python -m benchmarks.by_partition 6 1500000
	@$(BIN)/python -m benchmarks.cluster 5
	@$(BIN)/python -m benchmarks.committer
	@$(BIN)/python -m benchmarks.guard
	@$(BIN)/python -m benchmarks.fixed_cost
	@$(BIN)/python -m benchmarks.kafka_sink 6 8000000 1700000
	@$(BIN)/python -m benchmarks.kafka_latency 5
	@$(BIN)/python -m benchmarks.status 10
	@for kind in append merge upsert; do $(BIN)/python -m benchmarks.lake iceberg $$kind || exit; done
	@for kind in append upsert; do $(BIN)/python -m benchmarks.lake delta $$kind || exit; done

lock: needs ## renew requirements/dev.lock
	@$(PYTHON) -m venv build/lock && build/lock/bin/python -m pip install --quiet uv
	@build/lock/bin/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes \
	  --no-emit-index-url --no-header --no-emit-package eo-listener requirements/dev.in -o requirements/dev.lock

plain: $(STAMP) ## count phrases and names that an English reader stumbles over; ARGS=PATH for another tree
	@$(BIN)/python -m tests.plain $(ARGS)

wording: $(STAMP) ## write tests/wording.txt again, from the texts of the code
	@$(BIN)/python -m tests.wording

clean: ## remove all that was built, the virtual environments too
	rm -rf $(VENV) $(VENV)-spark-* build dist eo_listener/jars jvm-shim/target
