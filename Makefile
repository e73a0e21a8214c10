# Every target makes its own virtual environment when it is missing.
PYTHON ?= python3
CORE := .venv/.core
DEV := .venv/.dev
OTHERS := .venv/.others
BIN := .venv/bin

.PHONY: demo test test-cluster test-others test-playground test-slow test-docs test-package test-lowest docs lint bench clean

demo: $(CORE)
	$(BIN)/geodesic demo

test: lint
	$(BIN)/pytest -n 2 --dist worksteal

# Ray, a cluster that loses a machine, and signals at random moments
test-cluster: $(DEV)
	$(BIN)/pytest -m "slow or not slow" -k "not local" $(patsubst %,tests/runs/%.py,executors/test_ray executors/test_executors test_chaos)

# other people's environments in JAX, RLlib, and MiniGrid
test-others: $(OTHERS)
	$(BIN)/pytest -m "slow or not slow" $(patsubst %,tests/integrations/test_%.py,gymnax brax rllib refusals onnx) \
	  tests/envs/test_unlock_pickup_minigrid.py

# MuJoCo Playground, whose MuJoCo is newer than FetchPush's: an environment of its own
test-playground:
	mkdir -p build
	grep -v mujoco constraints.txt > build/playground.txt
	test -x build/playground/bin/python || $(PYTHON) -m venv build/playground
	build/playground/bin/pip install --quiet --disable-pip-version-check -c build/playground.txt -e ".[playground]" pytest
	build/playground/bin/pytest -m "slow or not slow" tests/integrations/test_brax.py -k playground

test-slow: $(OTHERS)
	$(BIN)/pytest -n 2 --dist worksteal -m slow

test-docs: docs
	$(BIN)/pytest -m "slow or not slow" tests/test_docs.py

# the wheel as a user gets it: in an environment of its own, away from the sources
test-package: $(DEV)
	rm -rf build/dist build/package
	$(BIN)/python -m build --quiet --outdir build/dist .
	tar -tzf build/dist/*.tar.gz | grep -q /tests/test_cli.py
	$(PYTHON) -m venv build/package
	build/package/bin/pip install --quiet --disable-pip-version-check -c constraints.txt build/dist/*.whl
	cd build && package/bin/geodesic run maze --steps 2000 --quiet --out package/run

# the lowest versions that pyproject names, in three environments since not all of them go together
test-lowest:
	$(call lowest,core,sb3 ray report wandb)
	build/lowest/core/bin/pytest $(addprefix tests/,contexts coupling transport metrics curricula envs/test_maze.py \
	  runs/test_run.py report integrations/sb3/test_callback.py)
	build/lowest/core/bin/pytest -m "slow or not slow" -k "not local" tests/runs/executors/test_executors.py
	$(call lowest,others,mujoco sbx gymnax brax)
	build/lowest/others/bin/pytest $(addprefix tests/,envs/test_fetch_push.py training/test_host.py \
	  integrations/sb3/test_trainer.py integrations/test_gymnax.py integrations/test_brax.py)
	$(call lowest,rllib,rllib)
	build/lowest/rllib/bin/pytest -m "slow or not slow" tests/integrations/test_rllib.py

define lowest
	rm -rf build/lowest/$(1)
	$(PYTHON) -m venv build/lowest/$(1)
	grep ^torch= constraints.txt > build/torch.txt
	eval build/lowest/$(1)/bin/pip install --quiet --disable-pip-version-check -c build/torch.txt pytest hypothesis selenium \
	  $$($(PYTHON) tests/lowest.py $(2))
	build/lowest/$(1)/bin/pip install --quiet --disable-pip-version-check --no-deps -e .
endef

docs: $(DEV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo build/site/index.html

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(DEV)
	$(BIN)/python -m benchmarks

$(CORE): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[report]"
	touch $@

$(DEV): $(CORE)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,sbx,mujoco]"
	touch $@

$(OTHERS): $(DEV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[gymnax,brax,rllib,onnx,minigrid]"
	touch $@

clean:
	rm -rf .venv runs
