"""The one cluster that all tests of this folder share, and the order in which they run."""

import os
from collections.abc import Iterator

import pytest
from deployment import Deployment, Home, standing
from harness import BIN

from kairoscope.deploy.building import run_time
from kairoscope.errors import UserError
from kairoscope.hosts import supervisor
from kairoscope.hosts.java import java17

# What does no harm first, what leaves nothing last.
ORDER = (
    "test_refused",
    "test_deployed",
    "test_run",
    "test_queue",
    "test_trouble",
    "test_change",
    "test_destroy",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything else before the tests of this folder, and those in ORDER."""

    def place(item: pytest.Item) -> int:
        return ORDER.index(item.path.stem) if item.path.stem in ORDER else -1

    items.sort(key=place)


def missing() -> str | None:
    """What this machine lacks for a deployment, or None; builds the bundles if it can."""
    for tool in ("kairoscope", "ansible-playbook", "supervisord"):
        if not (BIN / tool).exists():
            return f"{tool} is not in {BIN}; first: make"
    try:
        java17()
        run_time.build()
    except UserError as error:
        return error.message
    return None


@pytest.fixture(scope="session", autouse=True)
def needed() -> None:
    """Skip where the real parts are missing; in CI that is a failure."""
    if reason := missing():
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture
def home() -> Iterator[Home]:
    """A fresh home in which nothing is deployed; nothing may be left of it but its folder."""
    home = Home()
    try:
        yield home
        assert not supervisor.owned(home.state)
    finally:
        home.remove()


@pytest.fixture(scope="session")
def cluster(needed: None) -> Iterator[Deployment]:
    """Three storage nodes and KairosDB, deployed once; destroyed whatever happens."""
    with standing(Deployment()) as cluster:
        yield cluster
