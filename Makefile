# Everything starts from python3 (3.11 or later), git and make: each target makes its own .venv.
PYTHON ?= python3
VENV := .venv
LOWEST := .venv-lowest
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
TESTS ?= -n auto

# The tests start hundreds of interpreters: what one compiles is there for the next.
export PYTHONDONTWRITEBYTECODE =

.PHONY: help demo test test-all test-lowest lock browser docs-screenshots lint format bench bench-scale figures docs clean

help:
	@echo "make demo      collect real figures under local differential privacy and see what is learned"
	@echo "make test      the tests (about five minutes on two cores)"
	@echo "make test-all  the long tests too"
	@echo "make test-lowest  a sample of them with the lowest versions that pyproject.toml allows"
	@echo "make lock      choose the versions in requirements/ again: the newest, and the lowest"
	@echo "make browser   install Chromium, which the tests of the console's pages look with (Debian, Ubuntu; as root)"
	@echo "make docs-screenshots  the pictures of the console in the documentation"
	@echo "make lint      ruff, mypy, import contracts"
	@echo "make format    let ruff lay the code out"
	@echo "make bench     the benchmarks, as ratios"
	@echo "make bench-scale  10^8 reports counted by every engine (REPORTS=1e9 ENGINES='local dask' FOLDER=/disk)"
	@echo "make figures   the figures that the documentation quotes"
	@echo "make docs      the documentation's site, in out/site (no network is needed to build or read it)"
	@echo "make clean     remove what these targets made"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Overstory needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.12" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV) || \
	  { echo "$(PYTHON) cannot make a virtual environment: on Debian and Ubuntu, apt install python3-venv" >&2; rm -rf $(VENV); exit 2; }
	$(PIP) install --upgrade 'pip>=25.1'

# The libraries are those of a lock file; ours is built by hatchling, which is one of them.
OURS := --no-deps --no-build-isolation --editable .

$(VENV)/server: requirements/image.txt pyproject.toml $(BIN)/python
	$(PIP) install --require-hashes -r $<
	$(PIP) install $(OURS)
	@touch $@

$(VENV)/dev: requirements/dev.txt pyproject.toml $(BIN)/python
	$(PIP) install --require-hashes -r $<
	$(PIP) install $(OURS)
	@touch $@ $(VENV)/server

$(LOWEST)/dev: requirements/lowest.txt pyproject.toml
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check $(OURS)
	@touch $@

$(VENV)/docs: pyproject.toml $(BIN)/python
	$(PIP) install --group docs
	@touch $@

demo: $(VENV)/server
	$(BIN)/overstory demo

test: $(VENV)/dev
	$(BIN)/python -m pytest --dist worksteal -m "not slow" $(TESTS)

test-all: $(VENV)/dev
	TMPDIR=$${TMPDIR:-/tmp} $(BIN)/python -m pytest --dist loadgroup $(TESTS)

# A sample of the tests of each extra but Spark. Old libraries use what newer ones deprecate: here that is no error. The
# kernels of another Numba are kept apart.
SAMPLE := $(addprefix tests/,analysis/test_intervals.py cli/test_decode_store.py cli/test_deploy_examples.py \
  collector/test_connection.py collector/test_committer.py collector/test_collector_pages.py collector/test_oblivious_keys.py \
  collector/test_serve_process.py collector/test_store_contract.py \
  engines/test_engine_contract.py::test_a_scheduler_that_is_not_there_is_one_sentence[dask] files/test_blocks.py::test_reports_survive_and_count_alike \
  presentation/test_charts.py relay/test_relay_releases.py)

test-lowest: $(LOWEST)/dev
	NUMBA_CACHE_DIR=$(CURDIR)/$(LOWEST)/kernels $(LOWEST)/bin/python -m pytest -p no:cacheprovider -m "not slow" \
	  -W ignore::DeprecationWarning --dist worksteal $(TESTS) $(SAMPLE)

# Without a line about the index: it would name the one of this machine.
COMPILE = $(BIN)/python -m uv pip compile --quiet --upgrade --no-annotate --no-emit-index-url --no-emit-find-links \
  --custom-compile-command "make lock" pyproject.toml
HASHED = $(COMPILE) --universal --python-version 3.11 --generate-hashes

lock: $(BIN)/python
	$(PIP) install uv
	$(HASHED) --extra all --group dev -o requirements/dev.txt
	$(HASHED) --extra postgres --group build -c requirements/dev.txt -o requirements/image.txt
	$(COMPILE) --python-version 3.11 --resolution lowest-direct --extra all --extra dask --group build --group test \
	  -o requirements/lowest.txt

browser: $(VENV)/dev
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq chromium; }
	@chromium --version

docs-screenshots: $(VENV)/dev
	PYTHONPATH=tests $(BIN)/python tests/support/docs_screenshots.py docs/images

CODE := src papers tests bench docs examples

lint: $(VENV)/dev
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/dev
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

bench: $(VENV)/dev
	@for script in bench/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

REPORTS ?= 1e8
ENGINES ?= local dask spark
FOLDER ?=

bench-scale: $(VENV)/dev
	$(BIN)/python bench/scale.py --reports $(REPORTS) --engines $(ENGINES) --rounds 3 $(if $(FOLDER),--folder $(FOLDER))

figures: $(VENV)/dev
	@for script in oracle_page plan_gain decode_accuracy speed_decode numeric_accuracy heavy_hitters; do \
	  echo "== $$script"; $(BIN)/python bench/$$script.py || exit 1; done

docs: $(VENV)/server $(VENV)/docs # the page of the Python API is written from the package
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "out/site/index.html is the first page; with search: $(BIN)/python -m http.server -d out/site"

clean:
	rm -rf $(VENV) $(LOWEST) out dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
