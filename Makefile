# Everything a person needs. `make` alone lists the commands.
# A bare machine needs Python 3.11 or newer, git and make; all else is installed into .venv.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# The first Python of these that is new enough; `make PYTHON=...` decides otherwise.
PYTHON ?= $(firstword $(foreach name,python3.11 python3.12 python3.13 python3.14 python3, \
	$(shell $(name) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(name))))
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
SCENARIO ?= chaos
SEEDS ?= 1..2000
MESSAGES ?= 1000000
FIRST ?= 0
TOOLS ?= all
# As many tests at a time as there are cores; of all tests twice as many, because half their time is waiting for others.
PARALLEL := -n auto --maxprocesses 4 --dist worksteal
PARALLEL_ALL := -n $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) * 2 ))) --maxprocesses 8 --dist worksteal
LOCKS := requirements.lock requirements-build.lock
# Tests and jobs start many Pythons; each would compile the project anew, and its tests as well.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: failpoints help setup demo servers test test-all long unit sim fuzz mutants night integration check bench bench-compare sbom docs image e2e-tools cluster-up \
	cluster-down e2e format lock clean

help:  ## list the commands
	@echo "Penstock. Commands:"
	@sed -n 's/^\([a-z][a-z0-9-]*\):.*##  *\(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | \
		awk -F'|' '{printf "%-18s %s\n", $$1, $$2}'

setup: $(STAMP)  ## install everything into .venv (takes no time when nothing changed)

$(STAMP): $(LOCKS) pyproject.toml tools/bootstrap.sh
	@PYTHON='$(PYTHON)' VENV='$(VENV)' sh tools/bootstrap.sh
	@touch $@

demo: $(STAMP)  ## count words of real text while workers die and come; Spark checks every row
	@echo "== make demo: dataset, job, SIGKILLs, rescales, oracle (options: DEMO='--help')"
	@$(BIN)/python -m penstock_spark.demo $(DEMO)

test: $(STAMP)  ## run the tests: unit, golden, property, simulation, integration (5 to 15 minutes on two cores)
	@echo "== make test: unit, golden, property, simulation, integration; all but those of tests/support/slow_tests.csv"
	@$(BIN)/python -m pytest $(PARALLEL_ALL) -m "not slow"

test-all: $(STAMP)  ## run every test, the slow ones too (two to three times as long)
	@echo "== make test-all: every test (unit, golden, property, simulation, integration)"
	@$(BIN)/python -m pytest $(PARALLEL_ALL)

long: $(STAMP)  ## run the tests that draw, hit or kill, with more of it: hours (LONG='FILE ...')
	@echo "== make long: the tests of make test whose counts are smaller there"
	@PYTHONPATH=worker:operator:spark:. $(BIN)/python -m tests.support.long_tests $(LONG)

unit: $(STAMP)  ## run the quick tests: unit, golden and property (some minutes)
	@echo "== make unit: the quick tests"
	@$(BIN)/python -m pytest $(PARALLEL) --hypothesis-profile quick \
		$(wildcard tests/unit tests/golden tests/property)

sim: $(STAMP)  ## run the simulation longer: SCENARIO=chaos SEEDS=1..2000; SEED=7 prints what happens in one run
	@echo "== make sim: $(SCENARIO), $(if $(SEED),seed $(SEED),seeds $(SEEDS)); a violation prints how to repeat it"
	@$(BIN)/python -m sim --scenario $(SCENARIO) $(if $(SEED),--seed $(SEED) --trace,--seeds $(SEEDS))

fuzz: $(STAMP)  ## read many altered messages of Arrow: MESSAGES=1000000 FIRST=0 (make test reads 5,000)
	@echo "== make fuzz: $(MESSAGES) messages; a failure prints the command that repeats it"
	@PYTHONPATH=worker:operator:spark:. $(BIN)/python -m tests.fuzz --first $(FIRST) \
		--messages $(MESSAGES)

night: $(STAMP)  ## run everything much longer, in pieces; goes on where it was (NIGHT='STAGE ... --hours 8', '--report')
	@echo "== make night: simulation, faults at every effect, real kills, messages; ledger in build/night"
	@PYTHONPATH=worker:operator:spark:. $(BIN)/python -m tests.night $(NIGHT)

mutants: $(STAMP)  ## put faults into the code, one at a time; a test must notice each (hours; MUTANTS='--help')
	@echo "== make mutants: one-line faults against their tests; verdicts are kept in tools/mutants/verdicts.csv"
	@$(BIN)/python -m tools.mutants $(MUTANTS)

failpoints: $(STAMP)  ## hit effects of real processes, hours, resumable (FAILPOINTS=--full: with every action)
	@echo "== make failpoints: counts and outcomes in .failpoints; what falls short is printed with its command"
	@PYTHONPATH=worker:operator:spark:. $(BIN)/python -m tests.failpoints $(FAILPOINTS)

integration: $(STAMP)  ## run the tests with real processes, sockets, files and signals
	@echo "== make integration: real processes"
	@$(BIN)/python -m pytest tests/integration

check: $(STAMP)  ## lint, format, types, import contracts, sizes of functions and files
	@echo "== ruff check";      $(BIN)/ruff check .
	@echo "== ruff format";     $(BIN)/ruff format --check .
	@echo "== mypy (strict)";   $(BIN)/mypy
	@echo "== import contracts"; $(BIN)/lint-imports --no-cache
	@echo "== sizes, hygiene, twins"; $(BIN)/python -m tools.sizes && $(BIN)/python -m tools.hygiene && \
		$(BIN)/python -m tools.twins
	@echo "== base images";     $(BIN)/python -m tools.images
	@echo "== make check: all clean"

bench: $(STAMP)  ## run the benchmarks: tables, JSON and plots in bench/out (6 minutes; BENCH='NAME ...')
	@echo "== make bench: network word count with checkpoints; counts are checked"
	@$(BIN)/python -m bench.run $(BENCH)
	@$(BIN)/python -m bench.report

bench-compare: $(STAMP)  ## compare with other engines, in turn; installs them into .bench (20 minutes)
	@echo "== make bench-compare: the same words through every engine; counts are checked"
	@$(BIN)/python -m bench.compare $(BENCH)
	@$(BIN)/python -m bench.report

sbom: $(STAMP)  ## list the locked packages and their licences in build/sbom; fails on one that is not allowed
	@echo "== make sbom: build/sbom/*.cdx.json, build/sbom/licences.txt"
	@VENV='$(VENV)' BASE_PACKAGES='$(BASE_PACKAGES)' sh tools/sbom.sh

docs: $(STAMP)  ## build the documentation as a site in build/site; a broken link fails it
	@echo "== make docs: build/site/index.html"
	@VENV='$(VENV)' sh tools/site.sh

image:  ## build the images of worker and operator: BASE_IMAGE=...@sha256:... TAG=... BUILDER=docker|podman|buildah
	@sh tools/image.sh

servers: $(STAMP)  ## run Kafka, PostgreSQL and S3 on this machine to try things with, until Ctrl-C (SERVERS='kafka s3')
	@$(BIN)/python -m tools.servers $(SERVERS)

e2e-tools:  ## build Kubernetes for the cluster tests, once (12 minutes; needs Go; TOOLS=api: the quick tests)
	@e2e/tools/build $(TOOLS)

cluster-up:  ## make a cluster of kind for the tests (Docker, or Debian's packages: INSTALL=1)
	@e2e/cluster/up

cluster-down:  ## end that cluster and take away what it left
	@e2e/cluster/down

e2e: $(STAMP)  ## run the tests in a real cluster, which is made when there is none
	@e2e/cluster/up
	@echo "== make e2e: the tests in the cluster (evidence of failures: .e2e/evidence)"
	@$(BIN)/python -m pytest e2e -s -v --durations=0 --durations-min=1 -p no:xdist

format: $(STAMP)  ## format the code and fix what can be fixed
	@$(BIN)/ruff check --fix-only --quiet . && $(BIN)/ruff format .

lock: $(STAMP)  ## write the lock files anew, with the newest versions that pyproject.toml allows
	@sh tools/lock.sh

clean:  ## remove .venv and everything that tools and runs left behind
	rm -rf $(VENV) .penstock .demo .failpoints build dist spark-warehouse
	rm -rf .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
