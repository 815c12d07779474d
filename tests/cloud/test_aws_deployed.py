"""The published topology as an SDK client finds it at AWS, which knows nothing of Terraform."""

import base64
import itertools
import json
import subprocess
from collections import Counter
from typing import Any

import pytest
from aws_cloud import SETTINGS, Cloud, tags
from harness import BIN

from kairoscope.deploy.verify.answers import Firewall
from kairoscope.hosts import inventory

pytestmark = pytest.mark.aws

STORAGE = ["storage-1", "storage-2", "storage-3"]
KAIROSDB = ["kairosdb-1", "kairosdb-2", "kairosdb-3"]
HOSTS = [*KAIROSDB, "loader-1", "monitoring-1", *STORAGE]
ROLES = ["kairosdb", "loader", "monitoring", "storage"]
NETWORK = "10.42.0.0/16"
WORLD = "0.0.0.0/0"

# Group, port, from whom. What is not here must not be there.
LETS_IN = [
    ("bastion", 22, "198.51.100.0/24"),
    ("storage", 22, "bastion"),
    ("kairosdb", 22, "bastion"),
    ("loader", 22, "bastion"),
    ("monitoring", 22, "bastion"),
    ("storage", 9042, "kairosdb"),
    ("storage", 9142, "kairosdb"),
    ("storage", 19042, "kairosdb"),
    ("storage", 19142, "kairosdb"),
    ("storage", 7000, "storage"),
    ("storage", 7001, "storage"),
    ("storage", 9180, "monitoring"),
    ("storage", 9100, "monitoring"),
    ("kairosdb", 9100, "monitoring"),
    ("loader", 9100, "monitoring"),
    ("loader", 9105, "monitoring"),
    ("kairosdb", 8080, "loader"),
    ("kairosdb", 8080, "monitoring"),
    ("kairosdb", 4242, "loader"),
    ("kairosdb", 8080, "load-balancer"),
    ("load-balancer", 8080, "loader"),
]
# Group, port, to whom.
LETS_OUT = [
    *((role, "all", NETWORK) for role in ROLES),
    *((role, port, WORLD) for role in [*ROLES, "bastion"] for port in (80, 443)),
    *(("bastion", 22, role) for role in ROLES),
    ("load-balancer", 8080, "kairosdb"),
]


def test_plan_afterwards_is_empty(published: Cloud) -> None:
    done = published.cli(
        "terraform", f"-chdir={published.folder}", "plan", "-detailed-exitcode", "-input=false"
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr


def rules(cloud: Cloud) -> dict[bool, Counter[tuple[str, int | str, str]]]:
    """Every rule of the account outside of default VPCs: outwards or not, (group, port, peer)."""
    ec2 = cloud.client("ec2")
    groups = {
        group["GroupId"]: group["GroupName"].removeprefix("kairoscope-")
        for group in ec2.describe_security_groups()["SecurityGroups"]
        # Nobody is in the VPC's default group, which is as AWS makes it.
        if group["VpcId"] in cloud.holdings()["VPCs"] and group["GroupName"] != "default"
    }
    found: dict[bool, Counter[tuple[str, int | str, str]]] = {True: Counter(), False: Counter()}
    for rule in ec2.describe_security_group_rules()["SecurityGroupRules"]:
        if rule["GroupId"] not in groups:
            continue
        if rule["IpProtocol"] == "-1":
            port: int | str = "all"
        else:
            assert rule["IpProtocol"] == "tcp"
            assert rule["FromPort"] == rule["ToPort"]
            port = rule["FromPort"]
        peer = rule.get("CidrIpv4") or groups[rule["ReferencedGroupInfo"]["GroupId"]]
        assert "CidrIpv6" not in rule
        assert rule["Description"]
        found[rule["IsEgress"]][groups[rule["GroupId"]], port, peer] += 1
    return found


def test_security_groups_rule_by_rule(published: Cloud) -> None:
    found = rules(published)
    assert found[False] == Counter(LETS_IN)
    assert found[True] == Counter(LETS_OUT)


def test_verify_wants_open_just_what_the_groups_let_in(published: Cloud) -> None:
    """As `make verify TARGET=aws` compares it with what each host reaches; SSH is another check."""
    table = Firewall.read()
    there = inventory.read(published.home / "aws" / "inventory.yml").hosts
    groups = rules(published)[False]
    for source, target in itertools.permutations(there, 2):
        let_in = {
            port for of, port, who in groups if (of, who) == (target.role, source.role)
        } - {22}  # fmt: skip
        assert table.lets_in(source, target, telnet=True) == let_in, (source.name, target.name)


def test_hosts_are_in_their_groups_only(published: Cloud) -> None:
    for name, instance in hosts(published).items():
        groups = [group["GroupName"] for group in instance["SecurityGroups"]]
        assert groups == [f"kairoscope-{role(name)}"]


def hosts(cloud: Cloud) -> dict[str, dict[str, Any]]:
    """Instances by the names that the inventory has for them, and the bastion."""
    return {name.removeprefix("kairoscope-"): i for name, i in cloud.instances().items()}


def role(name: str) -> str:
    """storage of storage-1."""
    return name.rpartition("-")[0] or name


def test_instances(published: Cloud) -> None:
    found = hosts(published)
    assert sorted(found) == ["bastion", *HOSTS]
    types = {
        "storage": "i3.8xlarge",
        "kairosdb": "m5.2xlarge",
        "loader": "m5.2xlarge",
        "monitoring": "t3.large",
        "bastion": "t3.micro",
    }
    for name, instance in found.items():
        assert instance["InstanceType"] == types[role(name)]
        assert instance["State"]["Name"] == "running"
        assert tags(instance)["Role"] == role(name)
        assert instance["KeyName"] == "kairoscope"
        assert "InstanceLifecycle" not in instance, "no spot unless asked for"
        placement = "kairoscope-storage" if role(name) == "storage" else ""
        assert instance["Placement"]["GroupName"] == placement
        assert instance["Placement"]["AvailabilityZone"] == "eu-central-1a"


def test_images_are_their_makers_and_the_version_that_was_asked_for(published: Cloud) -> None:
    # The stand-in has others with names like these: older, newer, of another owner, for ARM.
    for name, instance in hosts(published).items():
        wanted = "ami-scylladb2026x1x11" if role(name) == "storage" else "ami-debian12"
        assert instance["ImageId"] == wanted


def test_metadata_only_with_a_token(published: Cloud) -> None:
    for name, instance in hosts(published).items():
        options = instance["MetadataOptions"]
        assert (options["HttpTokens"], options["HttpPutResponseHopLimit"]) == ("required", 1), name


def test_public_addresses(published: Cloud) -> None:
    """The bastion has one; besides, the NAT gateway. No subnet hands them out."""
    ec2, found = published.client("ec2"), hosts(published)
    with_one = [name for name, instance in found.items() if instance.get("PublicIpAddress")]
    assert with_one == ["bastion"]
    assert len(ec2.describe_addresses()["Addresses"]) == 2
    for subnet in ours(published, "describe_subnets", "Subnets"):
        assert not subnet["MapPublicIpOnLaunch"]


def ours(cloud: Cloud, call: str, many: str) -> list[dict[str, Any]]:
    """What the VPC has of a kind."""
    (vpc,) = cloud.holdings()["VPCs"]
    wanted = [{"Name": "vpc-id", "Values": [vpc]}]
    found: list[dict[str, Any]] = getattr(cloud.client("ec2"), call)(Filters=wanted)[many]
    return found


def test_hosts_are_in_a_private_subnet(published: Cloud) -> None:
    found = hosts(published)
    subnets = {tags(s)["Name"]: s for s in ours(published, "describe_subnets", "Subnets")}
    assert sorted(subnets) == ["kairoscope-private-1", "kairoscope-public"]
    private, public = subnets["kairoscope-private-1"], subnets["kairoscope-public"]
    assert {found[name]["SubnetId"] for name in HOSTS} == {private["SubnetId"]}
    assert found["bastion"]["SubnetId"] == public["SubnetId"]

    ways_out = {}
    for table in ours(published, "describe_route_tables", "RouteTables"):
        for association in table["Associations"]:
            if "SubnetId" in association:
                ways_out[association["SubnetId"]] = {
                    route["DestinationCidrBlock"]: route.get("NatGatewayId", route.get("GatewayId"))
                    for route in table["Routes"]
                    if "DestinationCidrBlock" in route
                }
    (nat,) = published.holdings()["NAT gateways"]
    assert ways_out[private["SubnetId"]] == {NETWORK: "local", WORLD: nat}
    assert ways_out[public["SubnetId"]][WORLD].startswith("igw-")


def test_volumes_are_encrypted(published: Cloud) -> None:
    names = {instance["InstanceId"]: name for name, instance in hosts(published).items()}
    found = {}
    for volume in published.client("ec2").describe_volumes()["Volumes"]:
        assert volume["Encrypted"]
        assert volume["VolumeType"] == "gp3"
        (attachment,) = volume["Attachments"]
        found[names[attachment["InstanceId"]], attachment["Device"]] = volume["Size"]
    expected = {(name, "/dev/sda1"): 50 for name in STORAGE}
    expected |= {(n, "/dev/xvda"): 30 for n in ["bastion", *HOSTS] if n not in STORAGE}
    expected |= {(name, "/dev/sdf"): 200 for name in KAIROSDB}
    assert found == expected


def test_tags_on_everything(published: Cloud) -> None:
    wanted = {
        "Project": "kairoscope",
        "Deployment": "kairoscope",
        "Experiment": "cluster-180k",
        "Owner": SETTINGS["owner"],
        "Expires": SETTINGS["expires"],
        "ManagedBy": "terraform",
    }
    ec2 = published.client("ec2")
    of_ec2 = [
        *published.instances().values(),
        *ec2.describe_volumes()["Volumes"],
        *ec2.describe_addresses()["Addresses"],
        *ours(published, "describe_vpcs", "Vpcs"),
        *ours(published, "describe_subnets", "Subnets"),
        *(
            group
            for group in ours(published, "describe_security_groups", "SecurityGroups")
            if group["GroupName"] != "default"
        ),
        *ec2.describe_nat_gateways()["NatGateways"],
        *ec2.describe_placement_groups()["PlacementGroups"],
        *ec2.describe_key_pairs()["KeyPairs"],
    ]
    for thing in of_ec2:
        assert wanted.items() <= tags(thing).items(), thing
        assert tags(thing)["Name"]
    # Whatever else can bear tags at all, as Terraform reads it.
    for address, attributes in published.state().items():
        if "tags_all" in attributes:
            assert wanted.items() <= (attributes["tags_all"] or {}).items(), address


def test_nothing_is_tagged_after_it_was_made(published: Cloud) -> None:
    """It would take the permission to tag what is not ours, and then to end it."""
    assert "ec2:RunInstances" in published.aws.calls()
    assert "ec2:CreateTags" not in published.aws.calls()


def test_user_data_and_state_hold_no_secret(published: Cloud) -> None:
    ec2 = published.client("ec2")
    for name, instance in hosts(published).items():
        data = ec2.describe_instance_attribute(
            InstanceId=instance["InstanceId"], Attribute="userData"
        )["UserData"].get("Value", "")
        said = base64.b64decode(data).decode()
        if role(name) == "storage":
            assert json.loads(said) == {"start_scylla_on_first_boot": False}
        elif role(name) == "bastion":
            assert "MaxStartups" in said
        else:
            assert said == ""
    state = (published.folder / "terraform.tfstate").read_text()
    for word in ("PRIVATE KEY", "secret_access_key", "aws_access_key", "testing"):
        assert word not in state
    assert not [
        (address, name)
        for address, attributes in published.state().items()
        for name, value in attributes.items()
        if value and ("password" in name or "secret" in name or "private_key" in name)
    ]


def test_a_host_may_send_backups_and_do_nothing_else(published: Cloud) -> None:
    (bucket,) = published.holdings()["buckets"]
    iam = published.client("iam")
    for name, instance in hosts(published).items():
        if name == "bastion":
            assert "IamInstanceProfile" not in instance
            continue
        profile = instance["IamInstanceProfile"]["Arn"].rpartition("/")[2]
        (given,) = iam.get_instance_profile(InstanceProfileName=profile)["InstanceProfile"]["Roles"]
        named = given["RoleName"]
        assert iam.list_attached_role_policies(RoleName=named)["AttachedPolicies"] == []
        policies = iam.list_role_policies(RoleName=named)["PolicyNames"]
        assert policies == (["backups"] if role(name) == "storage" else []), name
        for policy in policies:
            document = iam.get_role_policy(RoleName=named, PolicyName=policy)["PolicyDocument"]
            assert document["Statement"] == [
                {
                    "Effect": "Allow",
                    "Action": ["s3:AbortMultipartUpload", "s3:PutObject"],
                    "Resource": f"arn:aws:s3:::{bucket}/backups/scheduled/*",
                }
            ]


def test_bucket(published: Cloud) -> None:
    (bucket,) = published.holdings()["buckets"]
    assert bucket.startswith("kairoscope-results-")
    s3 = published.client("s3")
    blocked = s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"]
    assert set(blocked.values()) == {True}
    (owner,) = s3.get_bucket_ownership_controls(Bucket=bucket)["OwnershipControls"]["Rules"]
    assert owner["ObjectOwnership"] == "BucketOwnerEnforced"
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
    encryption = s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]
    (rule,) = encryption["Rules"]
    assert rule["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"
    (statement,) = json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"])["Statement"]
    assert (statement["Effect"], statement["Principal"]) == ("Deny", "*")
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    lifecycle = s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    by_id = {rule["ID"]: rule for rule in lifecycle}
    assert {rule["Status"] for rule in lifecycle} == {"Enabled"}
    assert by_id["results"]["Filter"] == {"Prefix": "results/"}
    assert by_id["results"]["Expiration"] == {"Days": 90}
    assert by_id["scheduled-backups"]["Filter"] == {"Prefix": "backups/scheduled/"}
    assert by_id["scheduled-backups"]["Expiration"] == {"Days": 14}
    assert by_id["leftovers"]["NoncurrentVersionExpiration"] == {"NoncurrentDays": 30}
    assert by_id["leftovers"]["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 7}


def test_load_balancer(published: Cloud) -> None:
    elb, found = published.client("elbv2"), hosts(published)
    (balancer,) = elb.describe_load_balancers()["LoadBalancers"]
    assert (balancer["Scheme"], balancer["Type"]) == ("internal", "network")
    (listener,) = elb.describe_listeners(LoadBalancerArn=balancer["LoadBalancerArn"])["Listeners"]
    assert (listener["Protocol"], listener["Port"]) == ("TCP", 8080)
    (group,) = elb.describe_target_groups()["TargetGroups"]
    assert listener["DefaultActions"][0]["TargetGroupArn"] == group["TargetGroupArn"]
    assert (group["Protocol"], group["Port"]) == ("TCP", 8080)
    assert group["HealthCheckProtocol"] == "HTTPS"
    assert group["HealthCheckPath"] == "/api/v1/health/check"
    assert group["Matcher"] == {"HttpCode": "204"}
    health = elb.describe_target_health(TargetGroupArn=group["TargetGroupArn"])
    targets = {
        (target["Target"]["Id"], target["Target"]["Port"])
        for target in health["TargetHealthDescriptions"]
    }
    assert targets == {(found[name]["InstanceId"], 8080) for name in KAIROSDB}


def test_names(published: Cloud) -> None:
    dns, found = published.client("route53"), hosts(published)
    (zone,) = published.holdings()["zones"]
    described = dns.get_hosted_zone(Id=zone)
    assert described["HostedZone"]["Config"]["PrivateZone"]
    assert [vpc["VPCId"] for vpc in described["VPCs"]] == published.holdings()["VPCs"]
    records = {
        record["Name"]: record
        for record in dns.list_resource_record_sets(HostedZoneId=zone)["ResourceRecordSets"]
        if record["Type"] == "A"
    }
    (balancer,) = published.client("elbv2").describe_load_balancers()["LoadBalancers"]
    alias = records.pop("kairosdb.kairoscope.internal.")["AliasTarget"]["DNSName"]
    assert alias.rstrip(".") == balancer["DNSName"]
    addresses = {
        name: [value["Value"] for value in record["ResourceRecords"]]
        for name, record in records.items()
    }
    assert addresses == {
        f"{name}.kairoscope.internal.": [instance["PrivateIpAddress"]]
        for name, instance in found.items()
    }


def ansible(cloud: Cloud, how: str) -> str:
    """The inventory as Ansible reads it."""
    return subprocess.run(
        [BIN / "ansible-inventory", "-i", cloud.home / "aws" / "inventory.yml", how],
        env=cloud.environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_inventory_graph(published: Cloud) -> None:
    lines = [line.strip("|-: ") for line in ansible(published, "--graph").splitlines()]
    graph: dict[str, list[str]] = {}
    for line in lines:
        if line.startswith("@"):
            graph[line.removeprefix("@")] = below = []
        else:
            below.append(line)
    assert {group: hosts for group, hosts in graph.items() if hosts} == {
        "storage": STORAGE,
        "kairosdb": KAIROSDB,
        "loader": ["loader-1"],
        "monitoring": ["monitoring-1"],
    }


def test_inventory_has_what_the_roles_need(published: Cloud) -> None:
    variables = json.loads(ansible(published, "--list"))["_meta"]["hostvars"]
    found = hosts(published)
    attached = {
        volume["Attachments"][0]["InstanceId"]: volume["VolumeId"]
        for volume in published.client("ec2").describe_volumes()["Volumes"]
        if volume["Attachments"][0]["Device"] == "/dev/sdf"
    }
    for name in HOSTS:
        host, instance = variables[name], found[name]
        assert host["address"] == host["ansible_host"] == instance["PrivateIpAddress"]
        assert host["dns_name"] == f"{name}.kairoscope.internal"
        assert host["instance_id"] == instance["InstanceId"]
        assert host["zone"] == instance["Placement"]["AvailabilityZone"]
        assert host["rack"] == "rack1"
        assert host["ansible_user"] == ("scyllaadm" if role(name) == "storage" else "admin")
        assert host["storage_engine"] == "scylla"
        assert host["results_bucket"] in published.holdings()["buckets"]
        assert (
            f"-W %h:%p admin@{found['bastion']['PublicIpAddress']}"
            in (host["ansible_ssh_common_args"])
        )
    for name in STORAGE:
        # 32 threads; i3 has no Nitro, so its four disks are numbered from 0.
        assert (variables[name]["vcpus"], variables[name]["shards"]) == (32, 30)
        assert variables[name]["data_devices"] == [f"/dev/nvme{n}n1" for n in range(4)]
    for name in KAIROSDB:
        volume = attached[found[name]["InstanceId"]].replace("-", "")
        assert variables[name]["data_devices"] == [
            f"/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_{volume}"
        ]
        assert (variables[name]["http_port"], variables[name]["telnet_port"]) == (8080, 4242)
