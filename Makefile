# make demo    the main job on every example; needs Python 3.11+ and nothing else
# make test    everything CI checks: lint, types, all fast tests, a share of the slow tests
# make test-all    the same with all slow tests: 50 minutes on two cores
# make test-gpu    the tests that need a GPU, ten at once: eight minutes on one GPU with 16 cores
# make check   lint and types only
# make format  rewrite the code as ruff wants it
# make site    the documentation site, into build/site
SHELL := /bin/bash
PYTHON ?= python3
export PYTHON

BIN := .venv/bin
EXAMPLES := examples/mlp_gelu.py examples/norm_block.py examples/conv_block.py \
    examples/softmax_attention_scores.py examples.transformer:transformer_block

.PHONY: demo test test-all test-gpu check format site clean browser

demo: .venv/demo.stamp
	@for example in $(EXAMPLES); do \
	    name=$${example##*[/:]}; \
	    $(BIN)/kernelwright optimize $$example --out demo-out/$${name%.py} || exit; \
	done
	@$(BIN)/kernelwright report demo-out/*/

# The tests run even where lint fails, and last, so that pytest's closing line ends the output.
test: SLOW := some
test-all: SLOW := all
test test-all: .venv/dev.stamp browser
	@$(MAKE) --no-print-directory check; checked=$$?; \
	    $(BIN)/python -m pytest -q -rs --slow $(SLOW) && exit $$checked

# Files differ in length by a factor of twenty, so idle workers take tests of other files.
test-gpu: .venv/dev.stamp
	@$(BIN)/python -m pytest -q -rs -n 10 --dist worksteal tests/gpu

check: .venv/dev.stamp
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

format: .venv/dev.stamp
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

site: .venv/dev.stamp
	@$(BIN)/python -m mkdocs build --strict

clean:
	rm -rf .venv build dist demo-out .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/demo.stamp: pyproject.toml constraints.txt .ci/venv
	@echo "installing into .venv ..."
	@.ci/venv
	@touch $@

.venv/dev.stamp: pyproject.toml constraints.txt .ci/venv
	@echo "installing into .venv with the development tools ..."
	@.ci/venv "[dev]"
	@touch .venv/demo.stamp $@

# The report page is tested in a real browser where there is one.
browser:
	@if ! command -v chromedriver >/dev/null; then \
	    if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	        echo "installing chromium ..."; \
	        { apt-get update && apt-get install -y chromium chromium-driver; } >/dev/null 2>&1 || true; \
	    fi; \
	    command -v chromedriver >/dev/null || \
	        echo "no chromium and chromedriver: the tests of the report page will be skipped"; \
	fi
