"""The other shape there is, with its state in S3: begun by one person, and ended by another.

Three zones, no bastion, no way out, spot loaders. The first deploy is interrupted in its midst, and
somebody else goes on with it, from a home of their own.
"""

import json
import os
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aws_cloud import Cloud, tags, unfolded
from aws_stand_in import AwsStandIn
from deployer_policy import not_allowed
from harness import BIN, end, wait_for

pytestmark = pytest.mark.aws

REGION = "us-east-1"
BUCKET = "somebodys-states"
KEY = "kairoscope/aws.tfstate"
BACKEND = f"""
bucket       = "{BUCKET}"
key          = "{KEY}"
region       = "{REGION}"
use_lockfile = true
"""
SHAPE: dict[str, Any] = {
    "cluster": {"kairosdb_nodes": 2, "loader_hosts": 2},
    "load": {"sensors": 60_000},
    "aws": {"storage_zones": 3, "storage_instance_type": "i4i.4xlarge", "loader_spot": True},
}
ACCOUNT = {"region": REGION, "access": "ssm", "nat": False, "name": "other", "admin_cidrs": None}


class Person(Cloud):
    """Somebody with the same account, experiment and backend."""

    def __init__(self, aws: AwsStandIn, folder: Path) -> None:
        super().__init__(aws, folder, **ACCOUNT)
        self.experiment = self.write_experiment("three-zones", **SHAPE)
        self.backend = self.scratch / "backend.hcl"
        self.backend.write_text(BACKEND)

    def arguments(self) -> list[str | Path]:
        """Of a deploy."""
        return self.deploy_arguments(self.experiment, "--backend", self.backend)

    def objects(self) -> list[str]:
        """What is in the bucket of states."""
        found = self.client("s3").list_objects_v2(Bucket=BUCKET)
        return [entry["Key"] for entry in found.get("Contents", [])]


class Interrupted:
    """What became of the first person's deploy."""

    def __init__(self, first: Person, second: Person) -> None:
        self.second = second
        output = first.scratch / "deploy.txt"
        with output.open("w") as file:
            process = first.start(*first.arguments(), stdout=file, stderr=subprocess.STDOUT)
        try:
            wait_for("an instance", lambda: process.poll() is not None or first.instances())
            self.locked = first.objects()
            # Meanwhile the second person plans, which must not be.
            self.meanwhile = second.cli(
                "plan-aws", second.experiment, "--account", second.account,
                "--backend", second.backend,
            )  # fmt: skip
            assert process.poll() is None, output.read_text()[-3000:]
            os.killpg(process.pid, signal.SIGINT)
            self.status = process.wait(600)
        finally:
            end(process)
        self.output = unfolded(output.read_text())
        self.unlocked = first.objects()
        self.state = first.state()
        self.instances = first.instances()


@pytest.fixture(scope="module")
def interrupted(needed: None) -> Iterator[Interrupted]:
    with tempfile.TemporaryDirectory(prefix="ks-aws-", ignore_cleanup_errors=True) as folder:
        aws = AwsStandIn(Path(folder))
        try:
            first, second = Person(aws, Path(folder, "first")), Person(aws, Path(folder, "second"))
            first.client("s3").create_bucket(Bucket=BUCKET)
            yield Interrupted(first, second)
        finally:
            aws.close()


@pytest.fixture(scope="module")
def resumed(interrupted: Interrupted) -> Person:
    """The second person's home, from where the deploy went on and ended."""
    second = interrupted.second
    second.well(*second.arguments())
    return second


def test_one_deploy_at_a_time(interrupted: Interrupted) -> None:
    assert f"{KEY}.tflock" in interrupted.locked
    assert interrupted.meanwhile.returncode == 2
    assert "Error acquiring the state lock" in unfolded(interrupted.meanwhile.stderr)


def test_interrupt_ends_in_order(interrupted: Interrupted) -> None:
    assert interrupted.status == 2
    assert "interrupted" in interrupted.output
    assert "Apply complete!" not in interrupted.output
    assert interrupted.unlocked == [KEY]
    # Nothing that was begun is forgotten: it would be paid for, and in the way of the next deploy.
    known = {attributes.get("id") for attributes in interrupted.state.values()}
    assert interrupted.instances
    assert {instance["InstanceId"] for instance in interrupted.instances.values()} <= known


def test_somebody_else_goes_on(resumed: Person) -> None:
    done = resumed.cli(
        "terraform", f"-chdir={resumed.folder}", "plan", "-detailed-exitcode", "-input=false"
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    known = {attributes.get("id") for attributes in resumed.state().values()}
    assert {instance["InstanceId"] for instance in resumed.instances().values()} <= known


def test_state_is_in_the_bucket_only(resumed: Person) -> None:
    assert resumed.objects() == [KEY]
    assert not list(resumed.folder.glob("*.tfstate*"))


def test_a_rack_in_each_of_three_zones(resumed: Person) -> None:
    where = {
        name.removeprefix("other-"): (instance["Placement"]["AvailabilityZone"], instance)
        for name, instance in resumed.instances().items()
    }
    assert {name: zone for name, (zone, _) in where.items()} == {
        "storage-1": "us-east-1a",
        "storage-2": "us-east-1b",
        "storage-3": "us-east-1c",
        "kairosdb-1": "us-east-1a",
        "kairosdb-2": "us-east-1b",
        "loader-1": "us-east-1a",
        "loader-2": "us-east-1b",
        "monitoring-1": "us-east-1a",
    }
    for name, (_, instance) in where.items():
        assert instance["Placement"]["GroupName"] == ""
        spot = "spot" if name.startswith("loader") else None
        assert instance.get("InstanceLifecycle") == spot
        assert "PublicIpAddress" not in instance
        assert tags(instance)["Deployment"] == "other"


def test_nothing_leads_in_or_out(resumed: Person) -> None:
    held, ec2 = resumed.holdings(), resumed.client("ec2")
    assert not {"addresses", "NAT gateways", "placement groups"} & set(held)
    (vpc,) = held["VPCs"]
    gateways = ec2.describe_internet_gateways(
        Filters=[{"Name": "attachment.vpc-id", "Values": [vpc]}]
    )
    assert gateways["InternetGateways"] == []
    endpoints = ec2.describe_vpc_endpoints()["VpcEndpoints"]
    assert Counter(endpoint["ServiceName"] for endpoint in endpoints) == Counter(
        f"com.amazonaws.us-east-1.{service}" for service in ("s3", "ssm", "ssmmessages")
    )
    groups = {
        group["GroupId"]: group["GroupName"].removeprefix("other-")
        for group in ec2.describe_security_groups()["SecurityGroups"]
        # Nobody is in the VPC's default group, which is as AWS makes it.
        if group["VpcId"] == vpc and group["GroupName"] != "default"
    }
    found = set()
    for rule in ec2.describe_security_group_rules()["SecurityGroupRules"]:
        if rule["GroupId"] in groups:
            assert "CidrIpv6" not in rule
            peer = rule.get("CidrIpv4") or rule.get("PrefixListId")
            peer = peer or groups[rule["ReferencedGroupInfo"]["GroupId"]]
            found.add((rule["IsEgress"], groups[rule["GroupId"]], rule["FromPort"], peer))
    hosts = ("storage", "kairosdb", "loader", "monitoring")
    # Port 22 comes from the session manager's agent on the host itself.
    assert {rule for rule in found if rule[2] == 22} == set()
    assert {(group, port, peer) for out, group, port, peer in found if out} - {
        ("load-balancer", 8080, "kairosdb")
    } == {
        *((host, -1, "10.42.0.0/16") for host in hosts),
        *((host, 443, prefix_list(resumed)) for host in hosts),
    }
    assert {(group, port, peer) for out, group, port, peer in found if not out and port == 443} == {
        ("endpoints", 443, host) for host in hosts
    }


def prefix_list(cloud: Cloud) -> str:
    """The one of S3's addresses."""
    wanted = [{"Name": "prefix-list-name", "Values": [f"com.amazonaws.{REGION}.s3"]}]
    (found,) = cloud.client("ec2").describe_prefix_lists(Filters=wanted)["PrefixLists"]
    number: str = found["PrefixListId"]
    return number


def test_inventory_goes_through_the_session_manager(resumed: Person) -> None:
    answer = subprocess.run(
        [BIN / "ansible-inventory", "-i", resumed.home / "aws" / "inventory.yml", "--list"],
        env=resumed.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    variables = json.loads(answer.stdout)["_meta"]["hostvars"]
    instances = resumed.instances()
    for name, host in variables.items():
        assert host["ansible_host"] == instances[f"other-{name}"]["InstanceId"]
        assert "AWS-StartSSHSession" in host["ansible_ssh_common_args"]
        assert "--region us-east-1" in host["ansible_ssh_common_args"]
    for number in (1, 2, 3):
        storage = variables[f"storage-{number}"]
        assert storage["rack"] == f"rack{number}"
        # Nitro: the root volume has number 0.
        assert storage["data_devices"] == ["/dev/nvme1n1"]


def test_policy_for_the_deployer_allows_all_that_this_took(resumed: Person) -> None:
    assert not_allowed(resumed.aws.calls()) == []
