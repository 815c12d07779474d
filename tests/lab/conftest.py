"""Labs for the tests of this folder, each gone again whatever happens."""

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from deployed_lab import DeployedLab
from harness import end, wait_for

from kairoscope.errors import UserError
from kairoscope.lab import Lab, check


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
def lab(needed: None) -> Iterator[DeployedLab]:
    """A lab that was deployed in spite of several interruptions."""
    deployed = DeployedLab()
    try:
        for task in ("Run-time bundle", "Certificates", "Start"):
            interrupt_deploy(deployed, task)
        deployed.deploy()
        yield deployed
    finally:
        deployed.remove()


@pytest.fixture(autouse=True)
def _effects(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hand on what verbs did to a running load, for the tests' summary."""
    lab = request.getfixturevalue("lab") if "lab" in request.fixturenames else None
    yield
    if isinstance(lab, DeployedLab):  # Other files have other labs.
        request.node.user_properties += [("effect", row) for row in lab.effects]
        lab.effects.clear()


def interrupt_deploy(lab: DeployedLab, task: str) -> None:
    """Ctrl-C in the first task of that name."""
    output = lab.scratch / "deploy.txt"
    with output.open("w") as file:
        process = lab.start("deploy", lab.experiment, "--target", "lab", stdout=file, stderr=file)
    try:
        wait_for(
            f"task {task}",
            lambda: f"{task}] **" in output.read_text() or process.poll() is not None,
            600,
            lambda: output.read_text()[-3000:],
        )
        assert process.poll() is None, output.read_text()[-3000:]
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(120) == 2, output.read_text()[-3000:]
    finally:
        end(process)
    assert not (lab.state / "deployed").exists()
