"""What the tests of this folder share: Terraform's real provider, and a stand-in for AWS."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from aws_cloud import Published, environment
from aws_stand_in import AwsStandIn
from harness import BIN

from kairoscope import paths

# What costs nothing first, what leaves nothing last.
ORDER = (
    "test_stand_in",
    "test_terraform",
    "test_aws_refused",
    "test_aws_deployed",
    "test_aws_plans",
    "test_aws_destroyed",
    "test_aws_interrupted",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of this folder after all others, in ORDER."""

    def place(item: pytest.Item) -> int:
        return ORDER.index(item.path.stem) if item.path.stem in ORDER else -1

    items.sort(key=place)


@pytest.fixture(scope="session", autouse=True)
def nobody() -> Iterator[None]:
    """The tests' own SDK clients have no credentials, profile or proxy of somebody's either."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
        patch.setenv("AWS_CONFIG_FILE", os.devnull)
        patch.setenv("NO_PROXY", f"{os.environ.get('NO_PROXY', '')},127.0.0.1")
        yield


@pytest.fixture(scope="session")
def scratch() -> Iterator[Path]:
    """A folder for the session, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="ks-aws-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def terraform(scratch: Path) -> Iterator[Path]:
    """A copy of the repository's Terraform, initialised with the real provider.

    Skips where Terraform or its provider cannot be had; in CI that is a failure.
    """
    folder = scratch / "terraform"
    shutil.copytree(paths.TERRAFORM, folder, ignore=shutil.ignore_patterns(".terraform"))
    if not shutil.which("terraform"):
        unavailable("terraform is not installed")
    with pytest.MonkeyPatch.context() as patch:
        if "TF_PLUGIN_CACHE_DIR" not in os.environ:  # downloaded once, if it has to be
            (scratch / "plugins").mkdir()
            patch.setenv("TF_PLUGIN_CACHE_DIR", str(scratch / "plugins"))
        done = subprocess.run(
            [BIN / "kairoscope", "terraform", f"-chdir={folder}", "init", "-backend=false",
             "-input=false", "-lockfile=readonly", "-no-color"],
            env=environment("http://127.0.0.1:1", scratch / "home"),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            said = " ".join(done.stderr.split())
            if "Failed to query available provider packages" in said or "Failed to install" in said:
                unavailable(f"no provider mirror and no registry: {said}")
            pytest.fail(said)
        yield folder


def unavailable(reason: str) -> None:
    """Skip the test, or fail it in CI."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def needed(terraform: Path) -> None:
    """What every deployment needs."""


@pytest.fixture(scope="session")
def published(needed: None) -> Iterator[Published]:
    """The published topology, deployed; tests may plan on it what they like."""
    with tempfile.TemporaryDirectory(prefix="ks-aws-", ignore_cleanup_errors=True) as folder:
        aws = AwsStandIn(Path(folder))
        try:
            yield Published(aws, Path(folder))
        finally:
            aws.close()
