"""Labs for the tests of this folder, each gone again whatever happens."""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from deployed_lab import DeployedLab

from kairoscope.errors import UserError
from kairoscope.targets.lab import Lab, check

# Those that share a lab, the one that leaves nothing of it last.
ORDER = ("test_deployed_hosts", "test_nodes", "test_operations", "test_destroyed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything else before the tests of this folder that share a lab, and those in ORDER."""

    def place(item: pytest.Item) -> int:
        mine = item.path.parent.name == "lab" and item.path.stem in ORDER
        return ORDER.index(item.path.stem) if mine else -1

    items.sort(key=place)


@pytest.fixture(scope="session", autouse=True)
def needed() -> None:
    """Skip where there cannot be a lab; in CI that is a failure."""
    try:
        check()
    except UserError as error:
        if os.environ.get("CI"):
            pytest.fail(error.message)
        pytest.skip(error.message)


@pytest.fixture(scope="module")
def new_lab(needed: None) -> Iterator[Callable[[], Lab]]:
    """Makes labs, each in a folder of its own; all are taken down after the module."""
    labs: list[Lab] = []

    def make() -> Lab:
        # Where the commands look for target lab if the folder above is KAIROSCOPE_HOME.
        labs.append(Lab(Path(folder) / str(len(labs)) / "lab"))
        return labs[-1]

    with tempfile.TemporaryDirectory(prefix="ks-lab-") as folder:
        try:
            yield make
        finally:
            for lab in labs:
                lab.down()


@pytest.fixture(scope="session")
def empty_lab(needed: None) -> Iterator[DeployedLab]:
    """A lab that nothing has been deployed to."""
    lab = DeployedLab()
    try:
        yield lab
    finally:
        lab.remove()


@pytest.fixture(scope="session")
def lab(empty_lab: DeployedLab) -> DeployedLab:
    """The same one, deployed."""
    if not (empty_lab.state / "deployed").exists():
        empty_lab.deploy()
    return empty_lab


@pytest.fixture(autouse=True)
def _effects(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hand on what verbs did to a running load, for the tests' summary."""
    lab = request.getfixturevalue("lab") if "lab" in request.fixturenames else None
    yield
    if isinstance(lab, DeployedLab):  # Other files have other labs.
        request.node.user_properties += [("effect", row) for row in lab.effects]
        lab.effects.clear()
