# benchmark: measure this machine. test: everything CI runs. speed: our own speed, as ratios.
PLAYBOOK = .venv/bin/ansible-playbook
PYTEST = .venv/bin/pytest
PYTHON_FILES = plugins tests tools benchmarks

.PHONY: benchmark test lint types unit integration e2e test-hammerdb testbed testbed-down speed catalogues setup setup-test clean

benchmark: setup
	$(PLAYBOOK) benchmark.yml $(ARGS)

# Three files of tests at a time, which wait a good part of theirs; those that take longest come first, so that the end is not spent waiting
# for one of them. EXTRA= runs those too that would make it longer than half an hour on two cores.
LONGEST = $(addprefix tests/,$(addprefix e2e/test_,testbed.py interrupts.py tprocc.py faults.py) integration/test_role_postgres.py)
TOGETHER = -n 3 --dist loadfile --no-loadscope-reorder
EXTRA = -m "not extra"

test: setup-test lint types
	$(PYTEST) $(TOGETHER) $(EXTRA) $(LONGEST) $(filter-out $(LONGEST),$(wildcard tests/e2e/test_*.py tests/integration/test_*.py)) tests/unit

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

# HAMMERDB_HOME, when set, is a HammerDB to compare with.
speed: setup-test
	.venv/bin/python benchmarks/speed.py $(ARGS)

catalogues: setup-test
	.venv/bin/python tools/catalogues.py

clean:
	rm -rf .venv .cache .ansible .pytest_cache .mypy_cache .ruff_cache
