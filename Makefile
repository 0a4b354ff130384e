# Everything starts from python3 (3.11 or later), git and make: each target makes its own .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
TESTS ?= -n auto

# The tests start hundreds of interpreters: what one compiles is there for the next.
export PYTHONDONTWRITEBYTECODE =

.PHONY: help demo test test-all browser screenshots docs-screenshots google-rappor-files lint format bench bench-scale figures docs clean

help:
	@echo "make demo      collect real figures under local differential privacy and see what is learned"
	@echo "make test      the tests (about five minutes on two cores)"
	@echo "make test-all  the long tests too"
	@echo "make browser   install Chromium, which the tests of the console's pages look with (Debian, Ubuntu; as root)"
	@echo "make screenshots  every page of the console, light and dark, wide and narrow, into out/screenshots"
	@echo "make docs-screenshots  the pictures of the console in the documentation"
	@echo "make google-rappor-files CHECKOUT=DIR  read the files of a google/rappor checkout"
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

$(VENV)/server: pyproject.toml $(BIN)/python
	$(PIP) install --editable '.[server]'
	@touch $@

$(VENV)/dev: pyproject.toml $(BIN)/python
	$(PIP) install --editable '.[all]' --group dev
	@touch $@ $(VENV)/server

$(VENV)/docs: pyproject.toml $(BIN)/python
	$(PIP) install --group docs
	@touch $@

demo: $(VENV)/server
	$(BIN)/overstory demo

test: $(VENV)/dev
	$(BIN)/python -m pytest --dist worksteal -m "not slow" $(TESTS)

test-all: $(VENV)/dev
	TMPDIR=$${TMPDIR:-/tmp} $(BIN)/python -m pytest --dist loadgroup $(TESTS)

browser: $(VENV)/dev
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq chromium; }
	@chromium --version

screenshots: $(VENV)/dev
	PYTHONPATH=tests $(BIN)/python tests/support/console_screenshots.py out/screenshots

docs-screenshots: $(VENV)/dev
	PYTHONPATH=tests $(BIN)/python tests/support/docs_screenshots.py docs/images

google-rappor-files: $(VENV)/dev
	$(BIN)/python tests/support/google_checkout.py "$(CHECKOUT)"

lint: $(VENV)/dev
	$(BIN)/ruff format --check src tests bench docs examples
	$(BIN)/ruff check src tests bench docs examples
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/dev
	$(BIN)/ruff format src tests bench docs examples
	$(BIN)/ruff check --fix src tests bench docs examples

bench: $(VENV)/dev
	@for script in bench/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

REPORTS ?= 1e8
ENGINES ?= threads local dask spark
FOLDER ?=

bench-scale: $(VENV)/dev
	$(BIN)/python bench/scale.py --reports $(REPORTS) --engines $(ENGINES) --rounds 3 $(if $(FOLDER),--folder $(FOLDER))

figures: $(VENV)/dev
	@for script in oracle_page plan_gain decode_accuracy speed_decode oracle_variance numeric_accuracy heavy_hitters; do \
	  echo "== $$script"; $(BIN)/python bench/$$script.py || exit 1; done

docs: $(VENV)/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "out/site/index.html is the first page; with search: $(BIN)/python -m http.server -d out/site"

clean:
	rm -rf $(VENV) out dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
