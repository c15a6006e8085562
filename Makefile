# `make` alone lists the targets. Each sets up what it needs first.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup test lint

help: ## list the targets
	@grep -E '^[a-z][a-zA-Z_-]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(READY) ## make .venv from requirements.lock

$(READY): requirements.lock
	@echo "setting up $(VENV) from requirements.lock (once, about a minute)"
	@$(PYTHON) -m venv $(VENV)
	@$(RUN) -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@touch $@

lint: $(READY) ## ruff and mypy
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy

test: $(READY) lint ## the test suite
	@$(RUN) -m pytest
