# benchmark: measure this machine. test: everything CI runs. speed: our own speed, as ratios.
PLAYBOOK = .venv/bin/ansible-playbook
PYTEST = .venv/bin/pytest
PYTHON_FILES = plugins tests tools benchmarks

.PHONY: benchmark test test-more lint types unit integration e2e test-hammerdb testbed testbed-down speed catalogues setup setup-test clean

benchmark: setup
	$(PLAYBOOK) benchmark.yml $(ARGS)

# What takes long or a test-bed has a target of its own: test-more.
MORE = tests/integration/test_hammerdb.py tests/integration/test_storage.py tests/integration/test_tprocc.py \
	tests/e2e/test_hammerdb.py tests/e2e/test_interrupts.py tests/e2e/test_testbed.py tests/e2e/test_tprocc.py

test: setup-test lint types
	$(PYTEST) tests/unit tests/integration tests/e2e $(addprefix --ignore=,$(MORE))

test-more: setup-test
	$(PYTEST) $(MORE)

setup:
	@tools/setup.sh

setup-test:
	@tools/setup.sh test

lint: setup-test
	.venv/bin/ruff check $(PYTHON_FILES)
	.venv/bin/ruff format --check $(PYTHON_FILES)
	.venv/bin/yamllint --strict .
	PATH=$(CURDIR)/.venv/bin:$$PATH .venv/bin/ansible-lint --profile production --offline roles playbooks

types: setup-test
	.venv/bin/mypy plugins/module_utils plugins/plugin_utils

unit: setup-test
	$(PYTEST) tests/unit

integration: setup-test
	$(PYTEST) tests/integration

e2e: setup-test
	$(PYTEST) tests/e2e

# HAMMERDB_HOME: the folder of a real HammerDB. Prints its figures beside ours.
test-hammerdb: setup-test
	HAMMERDB_HOME=$(HAMMERDB_HOME) $(PYTEST) -s tests/real/test_hammerdb.py

# Two hosts on this machine: ansible-playbook -i inventories/testbed benchmark.yml
testbed:
	tests/testbed/testbed.sh up

testbed-down:
	tests/testbed/testbed.sh down

speed: setup-test
	.venv/bin/python benchmarks/speed.py $(ARGS)

catalogues: setup-test
	.venv/bin/python tools/catalogues.py

clean:
	rm -rf .venv .cache .ansible .pytest_cache .mypy_cache .ruff_cache
