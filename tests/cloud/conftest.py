"""What the tests of this folder share: Terraform's real provider, and a stand-in for AWS."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from aws_cloud import Published, initialised
from aws_stand_in import AwsStandIn

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
    """See `initialised`."""
    with initialised(scratch) as folder:
        yield folder


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
