# make demo   see it work        make test   run every test        make help   list the rest
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
PIP    := $(BIN)/python -m pip --disable-pip-version-check --no-input
TEST_ENV := MPLBACKEND=Agg OMP_WAIT_POLICY=passive OMP_NUM_THREADS=$${OMP_NUM_THREADS:-2}

.PHONY: help install demo test lint clean
.DEFAULT_GOAL := help

help:
	@echo "make demo     fill missing pixels of handwritten digits, compare, write megae-demo/report.html"
	@echo "make test     run every test"
	@echo "make lint     ruff and mypy"
	@echo "make install  create $(VENV) with pinned versions (the others do this first)"
	@echo "make clean    remove $(VENV) and everything built"

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "megae needs Python 3.11 or newer; '$(PYTHON)' is not. Name another: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; \
	  exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { \
	  rm -rf $(VENV); \
	  echo "'$(PYTHON)' cannot make a virtual environment; install its venv module (Debian: apt install python3-venv)" >&2; \
	  exit 1; }
	$(PIP) install -c constraints.txt setuptools torch
	$(PIP) install -c constraints.txt --no-build-isolation -e '.[dev]'
	@touch $@

demo: install
	$(BIN)/megae demo

test: install
	$(TEST_ENV) $(BIN)/python -m pytest

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build dist *.egg-info megae-demo megae-bench .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
