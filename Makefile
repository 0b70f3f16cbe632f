# make demo          install, train a small model on the embedded corpus, translate its test set, print BLEU and samples
# make test          install, run the fast tests
# make test-system   run the tests that start processes, browsers or torchrun
# make test-slow     run the tests that take minutes
# make test-gpu      on a machine with a GPU, run the tests that need one and measure it, in 8 minutes (docs/scaling.md);
#                    FILES=DIR also trains on Multi30k as plain text
# make check         lint, types and fast tests
# make notebook      run docs/first-model.ipynb, and keep the output of its cells
# make tutorial      run the code of docs/tutorial, and write its output and pictures again
# make docs          write docs/config.md from the code, build the pages of docs/ as a site in build/site, and check their links

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SHOW := $(BIN)/translate show
AS := --output docs/pictures/
INSTALL := $(BIN)/pip install --disable-pip-version-check --quiet --constraint constraints.txt
# Bytecode is cached even where the environment forbids it: every test process would compile PyTorch and the tests again.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n 2 --dist worksteal

.PHONY: demo test test-system test-slow test-gpu lint types check docs pictures notebook tutorial wheel clean

demo: $(VENV)/installed
	@test ! -f runs/demo/run.json || echo "runs/demo is there: it is used, and continued if it was stopped. Remove it to start again."
	$(BIN)/translate train demo --run runs/demo --resume
	$(BIN)/translate eval runs/demo --samples 10

test: $(VENV)/installed-for-tests
	$(PYTEST) -m "not slow and not system"

test-system: $(VENV)/installed-for-tests
	$(PYTEST) -m "system and not slow"

test-slow: $(VENV)/installed-for-tests
	$(BIN)/pytest -m slow

test-gpu: $(VENV)/installed-for-tests
	$(BIN)/python benchmarks/gpu.py $(FILES)

lint: $(VENV)/installed-for-tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tests/lines_of_code.py

types: $(VENV)/installed-for-tests
	$(BIN)/mypy

check: lint types test

docs: $(VENV)/installed-for-docs
	$(BIN)/python docs/config_reference.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

pictures: $(VENV)/installed-for-tests
	test -f runs/demo/run.json || $(BIN)/translate train demo --run runs/demo
	$(SHOW) attention runs/demo "Gestern Abend haben die Eltern den langsamen Künstlern gedankt." --words $(AS)attention.png
	$(SHOW) masks runs/demo "Der Hund schläft." "Ein Koch schneidet zwei reife Birnen." $(AS)masks.png
	$(SHOW) positions runs/demo $(AS)positions.png
	$(SHOW) curves runs/demo $(AS)curves.png
	$(SHOW) alignments runs/demo --source data/test.de --reference data/test.en --number 2 \
		--pharaoh runs/demo.align $(AS)alignments.png

notebook: $(VENV)/installed-for-docs
	$(BIN)/python docs/run_notebook.py

tutorial: $(VENV)/installed-for-tests
	test -f runs/demo/run.json || $(BIN)/translate train demo --run runs/demo
	$(BIN)/python docs/tutorial/run.py

wheel: $(VENV)/installed
	$(BIN)/pip wheel --no-deps --wheel-dir dist .

clean:
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable '.[serve]'
	touch $@

$(VENV)/installed-for-tests: $(VENV)/installed
	$(INSTALL) --editable '.[test,browser]'
	touch $@

$(VENV)/installed-for-docs: $(VENV)/installed
	$(INSTALL) --editable '.[docs]'
	touch $@
