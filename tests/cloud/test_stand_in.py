"""The harness: it reaches nothing but the stand-in, and the stand-in refuses what AWS refuses."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from aws_cloud import Cloud, environment
from aws_stand_in import HERE, AwsStandIn, NotLoopback, loopback
from botocore.exceptions import ClientError
from harness import wait_for


@pytest.mark.parametrize(
    "url",
    [
        "https://ec2.eu-central-1.amazonaws.com",
        "http://10.0.0.1:5000",
        "http://0.0.0.0:5000",
        "http://localhost:5000",  # whatever a resolver makes of it
        "http://127.0.0.1.example.com:5000",
        "http://127.0.0.1@example.com:5000",
        "http://127.0.0.1",
        "https://127.0.0.1:5000",
        "127.0.0.1:5000",
        "",
    ],
)
def test_endpoint_that_is_not_loopback_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(NotLoopback, match="stand-in on this machine only"):
        loopback(url)
    with pytest.raises(NotLoopback):
        environment(url, tmp_path)


def test_credentials_of_ones_own_are_not_passed_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_EC2", "TF_VAR_region"):
        monkeypatch.setenv(name, "mine")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "mine")
    found = environment("http://127.0.0.1:5000", tmp_path)
    assert "mine" not in found.values()
    assert found["AWS_SHARED_CREDENTIALS_FILE"] == found["AWS_CONFIG_FILE"] == os.devnull


@pytest.fixture
def aws(tmp_path: Path) -> Iterator[AwsStandIn]:
    aws = AwsStandIn(tmp_path)
    try:
        yield aws
    finally:
        aws.close()


def test_what_aws_refuses_is_refused(aws: AwsStandIn, tmp_path: Path) -> None:
    cloud = Cloud(aws, tmp_path)
    ec2 = cloud.client("ec2")
    with pytest.raises(ClientError, match="InvalidInstanceType"):
        ec2.describe_instance_types(InstanceTypes=["i3.9xlarge"])
    start = {"MinCount": 1, "MaxCount": 1}
    image = ec2.describe_images(Owners=["136693071363"])["Images"][0]["ImageId"]
    with pytest.raises(ClientError, match="InvalidInstanceType"):
        ec2.run_instances(ImageId=image, InstanceType="i3.9xlarge", **start)
    with pytest.raises(ClientError, match="InvalidAMIID"):
        ec2.run_instances(ImageId="ami-0", InstanceType="m5.2xlarge", **start)
    assert cloud.holdings() == {}


def test_reset_forgets_all(aws: AwsStandIn, tmp_path: Path) -> None:
    cloud = Cloud(aws, tmp_path)
    cloud.client("ec2").create_placement_group(GroupName="one", Strategy="cluster")
    cloud.client("s3").create_bucket(
        Bucket="two", CreateBucketConfiguration={"LocationConstraint": cloud.region}
    )
    assert set(cloud.holdings()) == {"placement groups", "buckets"}
    aws.reset()
    assert cloud.holdings() == {}


PARENT = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from aws_stand_in import AwsStandIn
print(AwsStandIn(Path(sys.argv[2])).pid, flush=True)
time.sleep(600)
"""


def test_stand_in_ends_with_its_parent(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, HERE, tmp_path]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    server = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.communicate()
    wait_for("the end of the server", lambda: not server.is_running())
