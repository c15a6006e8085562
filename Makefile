# `make` alone lists the targets. Each sets up what it needs first.
SHELL := /bin/bash
PYTHON ?= python3
TARGET ?= sim
VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready

# `make stage D1.1`: the words after `stage` name the milestone and are no goals of their own.
ifeq ($(firstword $(MAKECMDGOALS)),stage)
MILESTONE := $(wordlist 2,$(words $(MAKECMDGOALS)),$(MAKECMDGOALS))
$(eval $(MILESTONE):;@:)
endif

.DEFAULT_GOAL := help
.PHONY: help setup stage milestones report notes bench test lint $(MILESTONE)

help: ## list the targets
	@grep -E '^[a-z][a-zA-Z_-]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(READY) ## make .venv from requirements.lock

$(READY): requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "$(PYTHON) is older than 3.11: name a newer one, as in make PYTHON=python3.12 setup" >&2; exit 2; }
	@echo "setting up $(VENV) from requirements.lock (once, a minute or two)"
	@$(PYTHON) -m venv $(VENV)
	@$(RUN) -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@touch $@

stage: $(READY) ## make stage D1.1: take the kernel to a verdict on a milestone
	@$(RUN) -m harness stage '$(MILESTONE)' --target '$(TARGET)'

milestones: $(READY) ## list the milestones, and which are built
	@$(RUN) -m harness milestones

report: $(READY) ## name the newest report, and open it where there is a browser
	@$(RUN) -m harness report

notes: $(READY) ## bring the table of STAGE_NOTES.md up to the accepted runs
	@$(RUN) -m harness notes

bench: $(READY) ## measure compiling, launching and a whole run, beside the goals
	@$(RUN) -m harness bench

lint: $(READY) ## ruff and mypy
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy

test: $(READY) lint ## ruff, mypy and every test
	@$(RUN) -m pytest
