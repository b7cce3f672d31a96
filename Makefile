# Two commands matter: `make demo` and `make test`. Both set up everything they need on a fresh machine.
PY ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# one thread per test process: the tests share two cores, and thread counts change floating-point sums
export OMP_NUM_THREADS ?= 1

.PHONY: help demo test test-slow check check-types check-texts docs pictures bench clinic wild rule setup browser release test-matrix audit clean

help:  ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/.core: pyproject.toml constraints.txt
	$(PY) -m venv $(VENV)
	$(BIN)/pip install -q -c constraints.txt torch==2.13.0
	$(BIN)/pip install -q -c constraints.txt -e .
	@touch $@

$(STAMP): $(VENV)/.core
	$(BIN)/pip install -q -U -c constraints.txt pip  # --group came with pip 25.1
	$(BIN)/pip install -q -c constraints.txt --group dev
	@touch $@

setup: $(STAMP)  ## the development environment in .venv

demo: $(VENV)/.core  ## two trainings and a log, each with its own problem, diagnosed
	$(BIN)/traindx demo

browser:  # and gdb, with which the tests attach to programs
	@test -x /usr/bin/chromium -a -x /usr/bin/gdb || (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium gdb >/dev/null)

test: $(STAMP) browser  ## every test but the slow ones
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow and not framework"
	$(MAKE) --no-print-directory check

test-slow: $(STAMP) browser  ## soak, kill, fuzzing and framework suites
	$(BIN)/python -m pytest -m "slow and not framework"
	cd tests && PYTHONPATH=.:.. ../$(BIN)/python -m attacks.fuzz --minutes 70  # 34 readers, more than two minutes each
	$(BIN)/python -m tools.framework_env all

check: $(STAMP)  ## format, lint, types, layers, fresh docs
	@$(MAKE) --no-print-directory -j 2 --output-sync=target check-types check-texts

check-types:
	$(BIN)/mypy -p traindx

check-texts:
	$(BIN)/ruff format --check -q src tests bench tools
	$(BIN)/ruff check -q src tests bench clinic examples tools
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m tools.pages --check
	$(BIN)/python -m tools.voice
	$(BIN)/python -m tools.hashes --check

docs: $(STAMP)  ## generated pages, then the site
	$(BIN)/python -m tools.pages
	$(BIN)/pip install -q -c constraints.txt zensical
	$(BIN)/zensical build --strict
	$(BIN)/python -m tools.site

pictures: $(STAMP)  ## the pictures of the rule pages, from runs of the clinic; code=GRAD001 draws one
	$(BIN)/python -m tools.rule_pictures $(code)

bench: $(STAMP)  ## figures against the bare loop and against peers
	$(BIN)/python bench/overhead.py
	$(BIN)/python bench/record.py
	$(BIN)/python bench/curves.py

clinic: $(STAMP)  ## score traindx on the clinic; sample=150 takes a stratified part
	$(BIN)/python -m clinic score $(if $(sample),--sample $(sample))

wild: $(STAMP)  ## real libraries with their own trainers, bare and observed (open half); sample=20 takes a part
	$(BIN)/python -m tools.framework_env --wild
	$(BIN)/python -m clinic wild --packages $(if $(sample),--sample $(sample))

rule: $(STAMP)  ## scaffold: make rule code=GRAD008 name=shrinking-gradients
	$(BIN)/python -m tools.new_rule "$(code)" "$(name)"

release: $(STAMP)  ## wheel, sdist and SBOM, built and checked; tag=1 tags the commit; nothing is published
	$(BIN)/pip install -q build twine cyclonedx-bom
	$(BIN)/python -m tools.release $(if $(tag),--tag)

test-matrix:  ## the tests that need no torch, on every Python that is installed, lowest and newest dependencies
	$(PY) -m tools.matrix

audit: $(STAMP)  ## the files of everything pinned have the digests of hashes.txt, and no known holes; needs a package index
	$(BIN)/python -m tools.hashes --check
	$(BIN)/pip download -q --require-hashes --no-deps -d $(VENV)/files -r hashes.txt
	$(BIN)/pip install -q pip-audit
	$(BIN)/pip-audit --no-deps --disable-pip -r hashes.txt

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache site
