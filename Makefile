# Two commands on a fresh machine with Python 3.11 and make: `make demo` and `make test`.

PYTHON ?= python3.11
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
# The Matrix homeserver the tests talk to: its pins do not go with ours.
SYNAPSE := .synapse
HOMESERVER := $(SYNAPSE)/.ready
SEED ?= $(shell $(PYTHON) -c 'import random; print(random.randrange(10**9))')

# A third of a test's time it waits, so three at once keep two cores busy; one process takes tests
# that stand together, which is fewer servers and browsers than taking them in turns.
SHARED := -n 3 --dist worksteal

# The tests start hundreds of processes; each would compile all of the program anew.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup demo test check format lint types docs pictures bench crash day sabotage fuzz acceptance cases lock

help: ## Show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  \1\t\2/' | expand -t 16

setup: $(READY) $(HOMESERVER) ## Make the virtual environments from the hash-locked requirements

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(PY) -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	touch $(READY)

$(HOMESERVER): requirements-synapse.lock
	$(PYTHON) -m venv $(SYNAPSE)
	$(SYNAPSE)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-synapse.lock
	touch $(HOMESERVER)

demo: $(READY) ## A server with real conversations and three agents; goes on where it stopped
	$(VENV)/bin/threadline demo --folder .demo

test: $(READY) $(HOMESERVER) ## All tests on SQLite and PostgreSQL, then the fast ones in a second order
	$(PY) scripts/browser.py
	seed=$(SEED); \
	$(PY) -m pytest $(SHARED) --randomly-seed=$$seed && \
	$(PY) -m pytest $(SHARED) --randomly-seed=$$((seed + 1)) -k sqlite tests/acceptance tests/flows

check: $(READY) format lint types test ## Everything that has to be green before a commit

format: $(READY)
	$(PY) -m ruff format --check .

lint: $(READY)
	$(PY) -m ruff check .

types: $(READY)
	$(PY) -m mypy

docs: $(READY) ## Run every example of the README and the docs
	$(PY) -m pytest tests/test_docs.py

pictures: $(READY) ## Take the pictures of the page in docs/images anew
	$(PY) -m pytest -n 0 tests/browser/test_pictures.py --pictures

bench: $(READY) ## Measure, beside the raw driver; writes bench/results.json
	$(PY) -m bench

crash: $(READY) ## Kill -9, power loss, full disk; writes crash/results.json
	$(PY) -m crash

day: $(READY) ## A day of 10,000 sends over five platforms, with trouble; writes crash/day.json
	$(PY) -m crash.day

sabotage: $(READY) $(HOMESERVER) ## Break the code on purpose; every break must turn its test red
	$(PY) -m sabotage

fuzz: $(READY) ## Requests made up from the OpenAPI document, and 120,000 bent or forged webhooks
	THREADLINE_FUZZ=30 THREADLINE_FUZZ_SEED=$(SEED) THREADLINE_FUZZ_WEBHOOKS=120000 \
	  THREADLINE_FUZZ_RESULTS=tests/providers/forged.json \
	  $(PY) -m pytest -n 2 -s tests/http/test_fuzz.py tests/providers/test_forged.py
	$(PY) scripts/fuzzed.py

acceptance: $(READY) $(HOMESERVER) ## Which test proves which acceptance id
	$(PY) scripts/acceptance.py

cases: $(READY) $(HOMESERVER) ## Which test answers which reported failure
	$(PY) scripts/cases.py

lock: $(READY) ## Compile the locks anew from pyproject.toml and requirements-synapse.in
	$(PY) -m piptools compile --quiet --generate-hashes --allow-unsafe --strip-extras --extra postgres --extra fast --extra tokens --extra mcp --extra discord --extra simulators --extra dev \
	  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-header --no-annotate \
	  --output-file requirements.lock pyproject.toml
	$(PY) -m piptools compile --quiet --generate-hashes --allow-unsafe --strip-extras \
	  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-header --no-annotate \
	  --output-file requirements-synapse.lock requirements-synapse.in
