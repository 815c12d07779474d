"""What cannot be is refused before anything is created, with what to change."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aws_cloud import Cloud, changing, unfolded
from aws_stand_in import AwsStandIn


@pytest.fixture(scope="module")
def aws(needed: None) -> Iterator[AwsStandIn]:
    with tempfile.TemporaryDirectory(prefix="ks-aws-") as folder:
        aws = AwsStandIn(Path(folder))
        try:
            yield aws
        finally:
            aws.close()


def refusal(aws: AwsStandIn, folder: Path, sections: dict[str, Any], **settings: Any) -> str:
    """What a deploy says that must be refused, and after which there must be nothing."""
    aws.reset()
    cloud = Cloud(aws, folder, **settings)
    said = cloud.refused(*cloud.deploy_arguments(cloud.write_experiment(**sections)))
    assert cloud.holdings() == {}
    assert not (cloud.folder / "terraform.tfstate").exists()
    return said


@pytest.mark.aws
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"admin_cidrs": []}, "admin_cidrs is empty, so nobody could log in."),
        ({"admin_cidrs": ["0.0.0.0/0"]}, "set open_to_the_world = true as well."),
        ({"admin_cidrs": ["10.42.7.0/24"]}, "overlap vpc_cidr 10.42.0.0/16"),
        ({"ssh_public_key": None}, 'input variable "ssh_public_key" is not set'),
        ({"ssh_public_key": "-----BEGIN OPENSSH PRIVATE KEY-----"}, "is a private key"),
    ],
)
def test_account(aws: AwsStandIn, tmp_path: Path, settings: dict[str, Any], said: str) -> None:
    assert said in refusal(aws, tmp_path, {}, **settings)


@pytest.mark.aws
@pytest.mark.parametrize(
    ("region", "sections", "said"),
    [
        # As moto has it from AWS: no i3 there.
        ("ca-west-1", {}, "Region ca-west-1 has no instance type i3.8xlarge (storage)."),
        ("us-west-1", {"aws": {"storage_zones": 3}}, "Region us-west-1 has 2 zones that offer all"),
        (
            "eu-central-1",
            {"storage": {"scylla_version": "2026.1.99"}},
            'no x86_64 image "ScyllaDB 2026.1.99"',
        ),
    ],
)
def test_region(
    aws: AwsStandIn, tmp_path: Path, region: str, sections: dict[str, Any], said: str
) -> None:
    assert said in refusal(aws, tmp_path, sections, region=region)


def test_instance_types_that_aws_does_not_have_or_that_do_not_fit(
    aws: AwsStandIn, tmp_path: Path
) -> None:
    """Asked of the provider itself: Kairoscope's own plan refuses what is not in its table."""
    aws.reset()
    cloud = Cloud(aws, tmp_path)
    cloud.well("plan-aws", "cluster-180k", "--account", cloud.account)
    for variable, said in (
        ("storage_instance_type=i3.9xlarge", "has no instance type i3.9xlarge (storage)."),
        ("kairosdb_instance_type=m6g.2xlarge", "Not for x86_64, for which the images are"),
    ):
        done = cloud.cli(
            "terraform", f"-chdir={cloud.folder}", "apply", "-auto-approve", f"-var={variable}"
        )
        assert done.returncode == 1
        assert said in unfolded(done.stderr)
    assert changing(aws.calls()) == []
    assert cloud.holdings() == {}


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"aws": {"storage_instance_type": "i3.9xlarge"}}, "aws.storage_instance_type"),
        ({"cluster": {"storage_nodes": 2}}, "cluster.replication_factor: 3 copies need 3"),
        ({"load": {"sensors": 40_000_000}}, "load.sensors"),
    ],
)
def test_experiment(aws: AwsStandIn, tmp_path: Path, sections: dict[str, Any], said: str) -> None:
    before = len(aws.calls())
    assert said in refusal(aws, tmp_path, sections)
    assert aws.calls()[before:] == [], "AWS need not be asked"


def test_account_file_that_is_missing(aws: AwsStandIn, tmp_path: Path) -> None:
    cloud = Cloud(aws, tmp_path)
    cloud.account.unlink()
    assert "terraform/account.tfvars.example" in cloud.refused(*cloud.deploy_arguments())
