# GNU General Public License v3.0 or later (see LICENSE)
"""One prepared place for all tests that only need a measured machine: its cluster and data set are built once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.e2e import SHORT, Place, Run


@pytest.fixture(scope="session")
def place() -> Iterator[Place]:
    """A place whose cluster and data set stay; ``first_run`` made them. Put back by our own teardown at the end."""
    here = Place()
    yield here
    here.run(playbook="playbooks/teardown.yml")
    assert not here.base_dir.exists()
    here.remove()


@pytest.fixture(scope="session")
def first_run(place: Place) -> Run:
    """The first measurement: everything is built. Two repeats, nothing special."""
    run = place.run(*SHORT, "repeats=2")
    assert (place.results / "latest").resolve() == run.directory
    return run


@pytest.fixture
def prepared(place: Place, first_run: Run) -> Place:
    """The place with cluster and data set of scale 1 standing."""
    assert first_run.process.returncode == 0
    return place


@pytest.fixture
def fresh() -> Iterator[Place]:
    """A place on which nothing has been made yet."""
    here = Place()
    yield here
    here.remove()
