"""A deployment on target `aws` through the real CLI, in a home of its own, on the stand-in."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import shutil
import struct
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from aws_stand_in import ACCOUNT, AwsStandIn, loopback
from botocore.config import Config
from harness import BIN, Cli

from kairoscope import paths

PUBLISHED = paths.EXPERIMENTS / "cluster-180k.yml"
REGION = "eu-central-1"

# Nobody has the private half of it.
_PARTS = (b"ssh-ed25519", bytes(range(32)))
_KEY = b"".join(struct.pack(">I", len(part)) + part for part in _PARTS)
PUBLIC_KEY = f"ssh-ed25519 {base64.b64encode(_KEY).decode()} kairoscope-test"

SETTINGS: dict[str, Any] = {
    "region": REGION,
    "owner": "kairoscope-test",
    "expires": "2099-12-31",
    "admin_cidrs": ["198.51.100.0/24"],
    "ssh_public_key": PUBLIC_KEY,
}
"""What a person writes into account.tfvars."""

OVERRIDE = f"""
provider "aws" {{
  allowed_account_ids = ["{ACCOUNT}"]
  max_retries         = 3
}}
"""
"""Fails in any account but moto's, and soon where moto does not know a call."""


def environment(endpoint: str, home: Path) -> dict[str, str]:
    """The environment for all that is started: the stand-in, and no way to anything else.

    Nothing of AWS's or Terraform's own that happens to be set is passed on, such as credentials, a
    profile or variables; only from where the provider comes.
    """
    sources = ("TF_CLI_CONFIG_FILE", "TF_PLUGIN_CACHE_DIR")
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in sources or not name.startswith(("AWS_", "TF_"))
    }
    return kept | {
        "AWS_ENDPOINT_URL": loopback(endpoint),
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        # Not the account's region, which must be what counts.
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_CONFIG_FILE": os.devnull,
        "KAIROSCOPE_HOME": str(home),
        "COLUMNS": "200",
        "NO_COLOR": "1",
    }


def unavailable(reason: str) -> None:
    """Skip the test, or fail it in CI."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@contextlib.contextmanager
def initialised(scratch: Path) -> Iterator[Path]:
    """A copy of the repository's Terraform, initialised with the real provider, which whatever is
    started within the block has without a registry.

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


class Cloud(Cli):
    """A KAIROSCOPE_HOME with a target `aws`: where the CLI is called, and what there is at AWS."""

    def __init__(self, aws: AwsStandIn, scratch: Path, **settings: Any) -> None:
        """`settings` take the place of SETTINGS; None leaves one out."""
        self.aws = aws
        self.scratch = scratch
        scratch.mkdir(exist_ok=True)
        self.home = scratch / "home"
        self.region: str = settings.get("region", REGION)
        self.cwd = scratch
        self.account = self.write_account(**settings)
        # Files in the working folder that are not Kairoscope's stay.
        self.folder = self.home / "aws" / "terraform"
        self.folder.mkdir(parents=True)
        (self.folder / "override.tf").write_text(OVERRIDE)

    def write_account(self, **settings: Any) -> Path:
        """account.tfvars with SETTINGS, some replaced; None leaves one out."""
        given = {k: v for k, v in (SETTINGS | settings).items() if v is not None}
        path = self.scratch / "account.tfvars"
        # A string, number, list or bool is written in HCL as in JSON.
        path.write_text("".join(f"{name} = {json.dumps(v)}\n" for name, v in given.items()))
        return path

    def write_experiment(self, name: str = "cluster-180k", **sections: Mapping[str, Any]) -> Path:
        """The published experiment with some fields of its sections replaced."""
        experiment = yaml.safe_load(PUBLISHED.read_text()) | {"name": name}
        for section, fields in sections.items():
            experiment[section] = experiment.get(section, {}) | fields
        path = self.scratch / f"{name}.yml"
        path.write_text(yaml.safe_dump(experiment))
        return path

    @property
    def environment(self) -> dict[str, str]:
        return environment(self.aws.url, self.home)

    def deploy_arguments(self, experiment: Path = PUBLISHED, *more: str | Path) -> list[str | Path]:
        """Arguments that provision target aws."""
        return ["provision", experiment, "--target", "aws", "--account", self.account, *more]

    def deploy(self, experiment: Path = PUBLISHED, *more: str | Path) -> str:
        """Deploy, which must work; what it printed."""
        return self.well(*self.deploy_arguments(experiment, *more))

    def refused(self, *arguments: str | Path) -> str:
        """Run what must be refused with exit status 2; all that it said, in one line.

        Fails the test if anything was changed at AWS meanwhile.
        """
        before = len(self.aws.calls())
        done = self.cli(*arguments)
        said = unfolded(done.stdout + done.stderr)
        assert done.returncode == 2, said[-5000:]
        assert "Traceback" not in said
        assert changing(self.aws.calls()[before:]) == []
        return said

    def terraform(self, *arguments: str) -> str:
        """Run terraform in the working folder, which must work; its standard output."""
        return self.well("terraform", f"-chdir={self.folder}", *arguments)

    def state(self) -> dict[str, dict[str, Any]]:
        """What Terraform says it made: attributes by address."""
        values = json.loads(self.terraform("show", "-json")).get("values", {})
        return {
            resource["address"]: resource["values"]
            for resource in _resources(values.get("root_module", {}))
            if resource["mode"] == "managed"
        }

    def changes(self, *arguments: str) -> dict[str, list[str]]:
        """What a plan made with `arguments` would do: actions by address, without no-ops."""
        plan = self.scratch / "changes"
        self.terraform("plan", "-input=false", f"-out={plan}", *arguments)
        found = json.loads(self.terraform("show", "-json", str(plan)))
        return {
            change["address"]: change["change"]["actions"]
            for change in found["resource_changes"]
            if change["change"]["actions"] not in (["no-op"], ["read"])
        }

    def client(self, service: str) -> Any:
        """An SDK client of the stand-in, in the account's region."""
        return boto3.client(
            service,
            region_name=self.region,
            endpoint_url=loopback(self.aws.url),
            aws_access_key_id="testing",
            aws_secret_access_key="testing",  # noqa: S106 (moto takes any)
            config=Config(retries={"max_attempts": 1}),
        )

    def instances(self) -> dict[str, dict[str, Any]]:
        """Instances that are not terminated, by the name in their tags, which each has alone."""
        found = [
            (tags(instance)["Name"], instance)
            for reservation in self.client("ec2").describe_instances()["Reservations"]
            for instance in reservation["Instances"]
            if instance["State"]["Name"] != "terminated"
        ]
        assert len(dict(found)) == len(found), sorted(name for name, _ in found)
        return dict(found)

    def holdings(self) -> dict[str, list[str]]:
        """What somebody made in the account and region: ids by kind, if there are any.

        All that is paid for, and all else that Kairoscope's Terraform makes.
        """
        ec2, elb, iam = self.client("ec2"), self.client("elbv2"), self.client("iam")

        def ids(call: str, many: str, one: str, client: Any = ec2, **filters: Any) -> list[str]:
            return [found[one] for found in getattr(client, call)(**filters)[many]]

        vpcs = [v["VpcId"] for v in ec2.describe_vpcs()["Vpcs"] if not v["IsDefault"]]
        in_vpcs = {"Filters": [{"Name": "vpc-id", "Values": vpcs or ["none"]}]}
        found = {
            "instances": [i["InstanceId"] for i in self.instances().values()],
            "volumes": ids("describe_volumes", "Volumes", "VolumeId"),
            "addresses": ids("describe_addresses", "Addresses", "AllocationId"),
            "NAT gateways": [
                gateway["NatGatewayId"]
                for gateway in ec2.describe_nat_gateways()["NatGateways"]
                if gateway["State"] != "deleted"
            ],
            "load balancers": ids(
                "describe_load_balancers", "LoadBalancers", "LoadBalancerArn", elb
            ),
            "target groups": ids("describe_target_groups", "TargetGroups", "TargetGroupArn", elb),
            "buckets": [b["Name"] for b in self.client("s3").list_buckets()["Buckets"]],
            "zones": ids("list_hosted_zones", "HostedZones", "Id", self.client("route53")),
            "VPCs": vpcs,
            "subnets": ids("describe_subnets", "Subnets", "SubnetId", **in_vpcs),
            "network interfaces": ids(
                "describe_network_interfaces",
                "NetworkInterfaces",
                "NetworkInterfaceId",
                **in_vpcs,
            ),
            "endpoints": [
                endpoint["VpcEndpointId"]
                for endpoint in ec2.describe_vpc_endpoints()["VpcEndpoints"]
                if endpoint["State"] != "deleted"
            ],
            "security groups": ids(
                "describe_security_groups", "SecurityGroups", "GroupId", **in_vpcs
            ),
            "placement groups": ids("describe_placement_groups", "PlacementGroups", "GroupId"),
            "keys": ids("describe_key_pairs", "KeyPairs", "KeyName"),
            "roles": ids("list_roles", "Roles", "RoleName", iam),
            "instance profiles": ids(
                "list_instance_profiles", "InstanceProfiles", "InstanceProfileName", iam
            ),
        }
        return {kind: sorted(found[kind]) for kind in found if found[kind]}


class Published(Cloud):
    """The published topology, deployed in two steps: with one KairosDB node, then with three."""

    def __init__(self, aws: AwsStandIn, scratch: Path) -> None:
        super().__init__(aws, scratch)
        one = self.write_experiment(cluster={"kairosdb_nodes": 1}, load={"sensors": 60_000})
        self.deploy(one)
        self.with_one = self.state()
        self.growth = self.changes("-var=kairosdb_nodes=3")
        self.deploy()


def unfolded(said: str) -> str:
    """What Terraform says in one line: without colours, and bars before each of its own."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m|│|╷|╵", " ", said).split())


def changing(calls: Iterable[str]) -> list[str]:
    """The calls that do more than look."""
    return [call for call in calls if not re.match(r"\w+:(Describe|Get|List|GET |HEAD )", call)]


def _resources(module: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from module.get("resources", [])
    for child in module.get("child_modules", []):
        yield from _resources(child)


def tags(thing: Mapping[str, Any]) -> dict[str, str]:
    """The tags of something as EC2 describes it."""
    return {tag["Key"]: tag["Value"] for tag in thing.get("Tags", [])}
