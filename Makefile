# `make` alone lists the targets. Each sets up what it needs first.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready
quoted = '$(subst ','\'',$(1))'

# A git worktree without a .venv uses that of the main checkout if both have the same lock.
MAIN := $(shell [ -e $(VENV) ] || { common=$$(git rev-parse --git-common-dir 2>/dev/null) && cd "$$common/.." && pwd; })
ifneq ($(MAIN),)
ifeq ($(shell cd $(call quoted,$(MAIN)) && [ -e $(READY) ] && cmp -s requirements.lock $(call quoted,$(CURDIR))/requirements.lock && echo same),same)
VENV := $(MAIN)/.venv
READY :=
endif
endif
PY := $(call quoted,$(VENV)/bin/python)
UV := $(shell command -v uv)

# `make stage D1.1`: the words after `stage` name the milestone and are not targets.
ifneq ($(filter stage layout budget sweep perf pin-cycles,$(firstword $(MAKECMDGOALS))),)
MILESTONE := $(wordlist 2,$(words $(MAKECMDGOALS)),$(MAKECMDGOALS))
$(eval $(MILESTONE):;@:)
endif

# Variables of the targets that judge: TARGET=b200, UNPIN="paths" with BECAUSE="why".
TARGETED = $(if $(TARGET),--target $(call quoted,$(TARGET)))
JUDGED = $(TARGETED) $(foreach path,$(UNPIN),--unpin $(call quoted,$(path))) $(if $(BECAUSE),--because $(call quoted,$(BECAUSE)))

.DEFAULT_GOAL := help
.PHONY: help setup stage stages gate ratchet sweep runs dashboard diff clean-runs resume replay cancel revoke doctor trust provision milestones report notes \
	layout budget size bench clock perf pin-cycles mutants flashmla-tests survey bugs docs silicon lint formatted test test-all test-thorough $(MILESTONE)

##@ Set up
help: ## list the targets
	@awk -F ':.*## ' '/^##@ / {print (groups++ ? "\n" : "") substr($$0, 5)} /^[a-z][a-zA-Z_-]*:.*## / {printf "  %-15s%s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv from requirements.lock; with uv, TORCH=cpu takes torch without the CUDA libraries

# uv reads no pip.conf, so pip's variable for a folder of wheels is passed to it. Bytecode is compiled now, because the
# supervisor's phases write none and would compile torch in each.
ifdef UV
INSTALL = $(UV) venv --quiet --allow-existing --python "$$(command -v $(PYTHON))" $(VENV) \
	&& UV_FIND_LINKS="$${UV_FIND_LINKS-$$PIP_FIND_LINKS}" $(UV) pip install --quiet --compile-bytecode --python $(PY) \
		$(if $(TORCH),--torch-backend=$(TORCH)) -r requirements.lock
else
INSTALL = $(PYTHON) -m venv $(VENV) && $(PY) -m pip install --quiet --disable-pip-version-check -r requirements.lock
endif

# The command that `pip install` of this repository makes, here for the clone.
COMMAND = mkdir -p $(VENV)/bin && printf '%s\n' '\#!/bin/sh' 'here=$$(cd "$$(dirname "$$0")" && pwd)' \
	'PYTHONPATH="$${here%/*/*}$${PYTHONPATH:+:$$PYTHONPATH}" exec "$$here/python" -m emulator "$$@"' \
	>$(VENV)/bin/ptx-emulator && chmod +x $(VENV)/bin/ptx-emulator

# The second of two concurrent makes waits for the first. File descriptor 9 of the shell holds the lock.
$(READY): requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "$(PYTHON) is older than 3.11: name a newer one, as in make PYTHON=python3.12 setup" >&2; exit 2; }
	@[ -n "$(UV)" ] || [ -z "$(TORCH)" ] || { echo "TORCH=$(TORCH) needs uv: pip install uv" >&2; exit 2; }
	@echo "setting up $(VENV) from requirements.lock with $(if $(UV),uv,pip) (once, $(if $(UV),about a minute,two or three minutes))"
	@mkdir -p $(VENV) && exec 9>$(VENV)/.lock && $(PYTHON) -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)' \
		&& { [ $@ -nt $< ] || { $(INSTALL) && $(COMMAND) && touch $@; }; }

# The site's generator has an environment of its own, so that the main lock does not grow.
DOCS_VENV := .venv-docs
DOCS_READY := $(DOCS_VENV)/.ready
$(DOCS_READY): requirements-docs.lock
	@$(PYTHON) -m venv $(DOCS_VENV)
	@$(call quoted,$(DOCS_VENV)/bin/python) -m pip install --quiet --disable-pip-version-check -r requirements-docs.lock
	@touch $@

##@ Judge a change
stage: $(READY) ## make stage D1.1 [TARGET=b200]: judge the working tree on a milestone, after the gate
	@$(PY) -m harness stage $(call quoted,$(MILESTONE)) $(JUDGED) $(if $(AGAIN),--again) $(if $(NO_CACHE),--no-cache)

stages: $(READY) ## judge the working tree on every milestone, in one run with one report
	@$(PY) -m harness stages $(JUDGED) $(if $(NO_CACHE),--no-cache)

gate: $(READY) ## judge the working tree on the hd=64 gate alone
	@$(PY) -m harness gate $(JUDGED) $(if $(AGAIN),--again)

ratchet: $(READY) ## judge the working tree on every milestone that was ever accepted
	@$(PY) -m harness ratchet $(JUDGED)

sweep: $(READY) ## make sweep D5c [SEEDS=400] [TARGET=cluster]: measure a milestone for many seeds and print the largest figures
	@$(PY) -m harness sweep $(call quoted,$(MILESTONE)) $(if $(SEEDS),--seeds $(call quoted,$(SEEDS))) $(TARGETED)

##@ Look at runs
runs: $(READY) ## list the runs of this clone; with TARGET=b200, the runs of everybody there
	@$(PY) -m harness runs $(TARGETED)

resume: $(READY) ## make resume RUN=id: fetch the verdict of a run that you left or lost
	@$(PY) -m harness resume $(call quoted,$(RUN))

dashboard: $(READY) ## write pages of this clone's history; with TARGET=b200, also the runs of everybody there
	@$(PY) -m harness dashboard $(TARGETED)

diff: $(READY) ## make diff RUN=id WITH=id: print what differs between two runs, and write it as a page
	@$(PY) -m harness diff $(call quoted,$(RUN)) $(call quoted,$(WITH))

clean-runs: $(READY) ## make clean-runs KEEP=50: remove all but the newest runs and their candidates; accepted ones stay
	@$(PY) -m harness clean-runs $(if $(KEEP),--keep $(call quoted,$(KEEP)))

replay: $(READY) ## make replay RUN=id: judge the recordings of a run once more, and compare the figures bit by bit
	@$(PY) -m harness.tools.replay $(call quoted,$(RUN))

cancel: $(READY) ## make cancel RUN=id: ask a run to end
	@$(PY) -m harness cancel $(call quoted,$(RUN))

revoke: $(READY) ## make revoke RUN=id BECAUSE="why": take the acceptance of a run back
	@$(PY) -m harness revoke $(call quoted,$(RUN)) --because $(call quoted,$(BECAUSE))

report: $(READY) ## print the path of the newest report, and open it if there is a browser
	@$(PY) -m harness report

notes: $(READY) ## update the table of STAGE_NOTES.md from the accepted runs
	@$(PY) -m harness notes

##@ Use a GPU host
doctor: $(READY) ## check each requirement of a target and say how to fix it
	@$(PY) -m harness doctor $(TARGETED)

trust: $(READY) ## show the key of a target's host, and pin it after you confirm it
	@$(PY) -m harness trust $(TARGETED)

provision: $(READY) ## build the environment of a target in its work folder
	@$(PY) -m harness provision $(TARGETED) $(if $(WHEELS),--wheels $(call quoted,$(WHEELS)))

##@ Understand the kernel
milestones: $(READY) ## list the milestones, and whether each is built
	@$(PY) -m harness milestones

layout: $(READY) ## make layout D1.3: draw and print where logits and P are stored
	@$(PY) -m harness.tools.behind_walls results/layout -- $(PY) -m lab.layout $(call quoted,$(MILESTONE))

budget: $(READY) ## make budget [D1.4]: print memory, registers, instructions, flops and bytes of each configuration
	@$(PY) -m lab.budget $(call quoted,$(MILESTONE))

CASES := harness/tools/launch_cases.py
perf: $(READY) ## make perf D1.4, or make perf [SHAPE="decode-64h-*"]: predicted; BASE=main [HEAD=mine]: what differs; TARGET=b200: measured
ifneq ($(BASE)$(HEAD),)
	@mkdir -p results
	@$(PY) -m emulator time --html results/perf.html --compare $(call quoted,$(or $(BASE),accepted)) \
		$(call quoted,$(or $(HEAD),$(CASES))) $(if $(HEAD),$(CASES)) $(call quoted,$(MILESTONE)) $(if $(SHAPE),--shape $(call quoted,$(SHAPE)))
else
	$(if $(and $(TARGET),$(SHAPE)),@echo >&2 "SHAPE is for predictions: leave out TARGET. On a GPU's machine: python -m harness.judge.measure --shape"; exit 2)
	@$(PY) -m $(if $(TARGET),harness perf $(call quoted,$(MILESTONE)) $(TARGETED),harness.tools.perf $(call quoted,$(MILESTONE)) \
		$(if $(SHAPE),--shape $(call quoted,$(SHAPE))) $(if $(WRITE),--write lab/data/predicted.csv))
	$(if $(TARGET)$(MILESTONE)$(SHAPE),,@$(PY) -m lab.peers $(if $(WRITE),--write))
	$(if $(WRITE),@$(PY) -m lab.goals --write)
	$(if $(WRITE),@$(PY) -m lab.pages predicted peers goals)
endif

##@ Compare with others, and check the emulator
flashmla-tests: $(READY) ## make flashmla-tests FLASHMLA=path [ARGS="--help"]: run FlashMLA's own tests of sparse attention on flash_mla/
	@$(PY) -m lab.flashmla $(call quoted,$(FLASHMLA)) $(ARGS)

survey: $(READY) ## print the tables of third-party programs, and write them into docs/reference/survey.md
	@$(PY) -m lab.pages survey found

bugs: $(READY) ## run published synchronisation bugs as small programs, and count those that the emulator finds
	@$(PY) -m lab.bugs

docs: $(DOCS_READY) ## build the pages as a site in site/: warnings and broken links are errors
	@$(call quoted,$(DOCS_VENV)/bin/python) -m zensical build --clean --strict

pin-cycles: $(READY) ## make pin-cycles [D1.4]: write the predicted cycles of one milestone, or of all, to stages/cycles.toml
	@$(PY) -m harness.tools.perf --pin $(call quoted,$(MILESTONE))

clock: $(READY) ## compare the clock's predictions with published measurements of GPUs; WRITE=1: take over its errors
	@$(PY) -m lab.clock $(if $(WRITE),--write)

silicon: $(READY) ## compare the emulator with this machine's NVIDIA GPU, bit by bit, in one report
	@$(PY) -m lab.silicon

mutants: $(READY) ## run wrong versions of the kernel against the milestones, and list the unnoticed ones (hours; ARGS="--help")
	@$(PY) -m lab.mutants $(ARGS)

##@ Develop
lint: $(READY) formatted ## run ruff and mypy
	@$(PY) -m mypy

formatted: $(READY)
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .

# Two workers more than there are cores, because tests wait for other processes. Each collects all tests, in 4 to 8 CPU
# seconds. Processes that tests start import the same files, so bytecode is written even where the environment forbids it.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(PY) -m pytest --durations=15 --dist=worksteal \
	--numprocesses=$$($(PY) -c 'import os; print(os.cpu_count() + 2)') --maxprocesses=4

size: $(READY) ## print the lines of each package beside limits.toml; a limit that is exceeded ends with status 1
	@$(PY) -m lab.size

bench: $(READY) ## measure compiling, launching and a whole run, beside the goals
	@$(PY) -m lab.judging
	@$(PY) -m lab.host_time
	@$(PY) -m lab.emulator

test: $(READY) formatted ## run ruff and the tests of every package, in about 6 minutes of two cores
	@$(PYTEST)

# Without its cache mypy takes half a minute of one core, so the tests begin beside it. One worker judges all milestones
# by two more processes, so there are fewer workers.
test-all: $(READY) formatted ## run ruff, mypy and all tests that CI runs: long ones, all milestones, packages to install
	@$(PY) -m mypy & mypy=$$!; $(PYTEST) --maxprocesses=3 -m "long or not long"; tested=$$?; \
	wait $$mypy || { echo "mypy failed: run make lint" >&2; exit 1; }; exit $$tested

test-thorough: $(READY) ## run more inputs of the long tests, which test-all leaves out
	@$(PYTEST) -m thorough
