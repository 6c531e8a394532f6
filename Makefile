# Everything happens in $(VENV), an environment made from the lock, envs/requirements.txt.
# `make` alone lists what can be made.

PYTHON ?= python3
VENV ?= .venv
# More options: for snakemake in `make catalog`, for pytest in `make test`, for the benchmarks that take any.
SNAKEMAKE_FLAGS ?=
PYTEST_FLAGS ?=
BENCH_FLAGS ?=
# For how long `make fuzz` fuzzes each reader, and libFuzzer's other options.
FUZZ_FLAGS ?= -max_total_time=600

# What `make lock` locks. torch's CUDA build accepts one triton only, its CPU build brings none: this is the one.
TORCH = 2.13.0
TRITON = 3.7.1

SHELL := bash
.SHELLFLAGS := -euo pipefail -c

# The rules call `python`, and tests call `snakemake`: the environment's come first.
venv_bin = $(if $(filter /%,$(VENV)),$(VENV),$(CURDIR)/$(VENV))/bin
in_venv = PATH="$(venv_bin):$$PATH"

.PHONY: help
help:  ## list what can be made
	@sed -nE 's/^([-.a-z]+):[^#]*## (.*)/\1\t\2/p' Makefile | while IFS=$$'\t' read -r target text; do \
		printf '%-14s %s\n' "$$target" "$$text"; done

.PHONY: .venv
.venv: $(VENV)/.installed  ## make the environment alone (VENV=FOLDER puts it elsewhere)

# Each stamp is written only after its step worked, and lies inside the environment, so it goes when that goes.
$(VENV)/.locked: envs/requirements.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("kernelcat needs Python 3.11 or newer, \
	and $(PYTHON) is " + sys.version.split()[0] + ": name another, as in: make catalog PYTHON=python3.12")'
	@echo "Installing the locked packages into $(VENV) (a few minutes)"
	@$(PYTHON) -m venv --clear "$(VENV)"
	@"$(VENV)/bin/python" -m pip install --quiet --disable-pip-version-check --requirement envs/requirements.txt
	@touch "$@"

$(VENV)/.installed: $(VENV)/.locked pyproject.toml
	@"$(VENV)/bin/python" -m pip install --quiet --disable-pip-version-check \
		--no-deps --no-index --no-build-isolation --editable .
	@touch "$@"

.PHONY: catalog
catalog: .venv  ## measure what is new or changed, write results/catalog.json
	@$(in_venv) snakemake --cores 1 $(SNAKEMAKE_FLAGS) results/catalog.json

.PHONY: test
test: lint  ## check the code, run the tests (PYTEST_FLAGS="-k grid")
	@$(in_venv) pytest $(PYTEST_FLAGS)

.PHONY: test-slurm
test-slurm: .venv  ## run profiles/slurm on a Slurm of one node, if its programs are installed
	@$(in_venv) pytest -m slurm -rs tests/test_slurm.py $(PYTEST_FLAGS)

.PHONY: lint
lint: .venv  ## check the code alone
	@$(in_venv) ruff check .
	@$(in_venv) ruff format --check .
	@$(in_venv) snakefmt --check Snakefile
	@$(in_venv) snakemake --lint

.PHONY: bench-gpus
bench-gpus: .venv  ## time the release suite on one GPU and on all of this machine
	@$(in_venv) python tests/benchmarks/bench_gpus.py $(BENCH_FLAGS)

.PHONY: bench-import
bench-import: .venv  ## time the import of CSVs of three sizes
	@$(in_venv) python tests/benchmarks/bench_import.py

.PHONY: bench-overhead
bench-overhead: .venv  ## time what a configuration costs besides its sampling (BENCH_FLAGS="--configurations 12")
	@$(in_venv) python tests/benchmarks/bench_overhead.py $(BENCH_FLAGS)

.PHONY: bench-report
bench-report: .venv  ## time the report of 10,000 runs
	@$(in_venv) python tests/benchmarks/bench_report.py

.PHONY: fuzz
fuzz: .venv  ## fuzz what reads files, ten minutes a reader; needs atheris (FUZZ_FLAGS="-max_total_time=60")
	@$(in_venv); for reader in suites imports documents; do python tests/fuzz/fuzz.py $$reader $(FUZZ_FLAGS); done

.PHONY: format
format: .venv  ## put the code into its form
	@$(in_venv) ruff check --fix .
	@$(in_venv) ruff format .
	@$(in_venv) snakefmt Snakefile

# The newest versions that pyproject.toml allows, from an environment made for it. What torch's CUDA build alone
# brings (cuda-*, nvidia-*) is left out: torch chooses that itself. The comment that heads each file is kept.
# Made with the oldest Python that is supported: newer ones install what it can, not the other way round.
.PHONY: lock
lock:  ## lock the newest versions that pyproject.toml allows
	@$(PYTHON) -c 'import sys; sys.version_info[:2] == (3, 11) or sys.exit("make lock needs Python 3.11, \
	and $(PYTHON) is " + sys.version.split()[0] + ": say where it is, as in: make lock PYTHON=python3.11")'
	@scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; \
	$(PYTHON) -m venv "$$scratch/venv"; \
	pip() { "$$scratch/venv/bin/python" -m pip --disable-pip-version-check "$$@"; }; \
	pip install --quiet torch==$(TORCH) triton==$(TRITON) --editable '.[dev]'; \
	pip check; \
	pip freeze --all --exclude kernelcat --exclude pip | sed 's/+.*//' \
		| awk '!/^(cuda|nvidia)-/ || /^nvidia-ml-py==/' | LC_ALL=C sort --ignore-case --field-separator== --key=1,1 >"$$scratch/pins"; \
	{ sed '/^[^#]/,$$d' envs/requirements.txt; cat "$$scratch/pins"; } >"$$scratch/requirements.txt"; \
	{ sed '/^  - pip:$$/q' envs/kernelcat.yaml; sed 's/^/      - /' "$$scratch/pins"; } >"$$scratch/kernelcat.yaml"; \
	cp "$$scratch/requirements.txt" "$$scratch/kernelcat.yaml" envs/; \
	echo "Locked $$(wc -l <"$$scratch/pins") packages in envs/"

.PHONY: clean
clean:  ## remove .venv and the tools' caches; results/ stays
	@rm -rf .venv .pytest_cache .ruff_cache .hypothesis
	@find scripts tests -name __pycache__ -type d -prune -exec rm -rf {} +
