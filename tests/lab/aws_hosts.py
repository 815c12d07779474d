"""Target `aws` with hosts: what Terraform makes in the stand-in for AWS is there as hosts of a lab.

What is shown: the whole way of a deployment, through the bastion, to hosts that are as their images
would be. What is not: see aws_stand_in.py; and the storage nodes are stand-ins for ScyllaDB, each
before a Cassandra that keeps what it is told.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import scylla_stand_in
import without_nftables
from aws_cloud import Cloud
from aws_stand_in import AwsStandIn
from deployed_lab import as_root
from harness import SMALL, HostsCli, but
from scylla_stand_in import OF_IMAGE, PACKAGES
from stores_behind import PORT, Stores

from kairoscope.targets.aws.instance_types import table
from kairoscope.targets.lab import Lab, LabHost

VERSION = "2026.1.11"  # The release whose image the stand-in for AWS has.
PATCH = "2026.1.12"  # To be had since.
DATACENTER = "dc1"
HOSTS = {
    **{f"storage-{i}": f"10.77.0.{10 + i}" for i in (1, 2, 3)},
    "kairosdb-1": "10.77.0.101",
    "kairosdb-2": "10.77.0.102",
    "loader-1": "10.77.0.201",
    "monitoring-1": "10.77.0.251",
    "bastion": "10.77.0.252",
}
"""Of the lab, by which this machine looks after them. A deployment knows others, AWS's."""
LATER = {"kairosdb-3": "10.77.0.103"}
"""Of hosts that come later."""
STORAGE = ("storage-1", "storage-2", "storage-3")
_STORES = [f"10.77.0.{241 + i}" for i in range(3)]
_VPC = "10.42.0.0/16"  # What a deployment has unless told otherwise.

EXPERIMENT: dict[str, Any] = but(
    SMALL,
    name="aws-hosts-test",
    cluster={"kairosdb_nodes": 2, "loader_hosts": 1},
    storage={"scylla_version": VERSION},
    kairosdb={"heap_mb": 512},
    aws={
        "storage_instance_type": "i4i.large",
        "kairosdb_instance_type": "m5.large",
        "loader_instance_type": "m5.large",
        "monitoring_instance_type": "t3.medium",
        "queue_volume_gib": 10,
    },
)
EXPERIMENT["storage"].pop("heap_mb")

# As cloud-init does it at the first boot of an instance with a key pair.
_LOGIN = """
user=$1 key=$2
useradd --create-home --shell /bin/bash "$user"
echo "$user ALL=(ALL) NOPASSWD:ALL" > /etc/sudoers.d/90-cloud-init-users
install -d -m 700 -o "$user" -g "$user" "/home/$user/.ssh"
printf '%s\\n' "$key" > "/home/$user/.ssh/authorized_keys"
chown "$user:$user" "/home/$user/.ssh/authorized_keys"
base64 --decode > /etc/ssh/aws_host_key
chmod 600 /etc/ssh/aws_host_key
echo 'HostKey /etc/ssh/aws_host_key' > /etc/ssh/sshd_config.d/aws.conf
systemctl restart ssh
"""
_ADDRESS = """
folder=/etc/systemd/network/10-lab.network.d
mkdir -p "$folder"
printf '[Network]\\nAddress=%s\\n' "$1" >> "$folder/aws.conf"
ip address add "$1" dev host0
"""
# As ScyllaDB's image has set itself up (scylla-machine-image, packer/scylla_install_image and
# common/scylla_image_setup): installed, and nothing of it pinned or held, with the repository that
# has the patches since among the host's; file system made, tuned, and started at each boot but the
# first, as its user data says. How many shards its CPUs would be is this project's own word: what
# AWS's and perftune's are is not shown.
_SCYLLA_IMAGE = """
tar --extract --directory /srv
mkdir -p /etc/apt/keyrings
mv /srv/key.gpg /etc/apt/keyrings/scylladb.gpg
echo 'deb [signed-by=/etc/apt/keyrings/scylladb.gpg] file:/srv/repository stable main' \\
  > /etc/apt/sources.list.d/scylla.list
for name in $3; do set -- "$@" "/srv/repository/pool/${name}_$4_all.deb"; done
store=$1 shards=$2
shift 4
dpkg --install "$@"
printf 'store=%s\\nshards=%s\\n' "$store" "$shards" > /etc/scylla-stand-in.conf
truncate --size 4M /srv/disk-a
scylla_setup --disks /srv/disk-a --nic host0 --setup-nic-and-disks
touch /etc/scylla/machine_image_configured
"""


class AwsHosts(Cloud, HostsCli):
    """A KAIROSCOPE_HOME with target aws, of which the instances are hosts of a lab."""

    base = EXPERIMENT

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.through = lab.network.inside()
        self._ends = contextlib.ExitStack()
        for name in ("login", "host"):
            kind = "ed25519" if name == "login" else "ecdsa"
            subprocess.run(
                ["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", name, "-f", folder / name],
                check=True,
            )
        self._login = (folder / "login.pub").read_text().strip()
        shown = " ".join((folder / "host.pub").read_text().split()[:2])
        aws = AwsStandIn(folder, self.through, shown)
        self._ends.callback(aws.close)
        super().__init__(aws, folder / "cloud", ssh_public_key=self._login)
        self._agent = self._ends.enter_context(_agent(folder))
        self.experiment = self.write("experiment")
        # The hosts share this machine's clock.
        (self.home / "aws" / "group_vars").mkdir()
        (self.home / "aws" / "group_vars" / "all.yml").write_text("common_time_sync: false\n")
        self._base = folder

    @property
    def environment(self) -> dict[str, str]:
        secrets = {"KAIROSCOPE_SECRETS": str(self.scratch / "secrets")}
        return super().environment | secrets | {"SSH_AUTH_SOCK": self._agent}

    def arguments(self, *more: str | Path) -> tuple[str | Path, ...]:
        """Of a deploy, after the verb."""
        return (self.experiment, "--target", "aws", "--account", self.account, *more)

    def outputs(self) -> dict[str, Any]:
        """What Terraform tells of what it made."""
        said = json.loads(self.terraform("output", "-json"))
        return {name: value["value"] for name, value in said.items()}

    def boot(self) -> None:
        """Have the hosts be what Terraform made instances of."""
        told = self.outputs()
        self._let_through()
        scylla_stand_in.build(self._base / "packages", [VERSION, PATCH])
        stores = {
            store: told["hosts"][name]["address"]
            for store, name in zip(_STORES, STORAGE, strict=True)
        }
        self._stores = Stores(self.lab, self._base / "stores", DATACENTER, stores)
        self._stores.start()
        self._ends.callback(self._stores.close)
        self._is_instance("bastion", told["bastion_user"], self._instances()["bastion"][1])
        as_root(self.lab, "bastion", _ADDRESS, f"{told['bastion']}/32")
        way = ["route", "add", f"{told['bastion']}/32", "dev", self.lab.network.switch]
        subprocess.run(["ip", "-n", self.lab.network.name, *way], check=True)
        for name, host in told["hosts"].items():
            self._boot(name, host)

    def end(self, name: str) -> None:
        """Let an instance end, as AWS does where its machine breaks."""
        number, _ = self._instances()[name]
        self.lab.kill(name)
        self._at_aws(f"ec2.terminate_instances(InstanceIds=[{number!r}])")

    def left(self) -> list[str]:
        """Instances of the account that did not end."""
        look = """
for reservation in ec2.describe_instances()["Reservations"]:
    for instance in reservation["Instances"]:
        if instance["State"]["Name"] != "terminated":
            print(instance["InstanceId"])
"""
        return self._at_aws(look).split()

    def _at_aws(self, script: str) -> str:
        """What a script prints that asks the stand-in for AWS, from where it can be reached."""
        first = f"import boto3\nec2 = boto3.client('ec2', region_name={self.region!r})\n"
        return subprocess.run(
            [*self.through, sys.executable, "-c", first + script],
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    @contextlib.contextmanager
    def booting(self, name: str) -> Iterator[None]:
        """Within the block, a host is made, or made anew, as soon as Terraform has made an instance
        of that name that was not there, with the image and the address of that."""
        was = self._instances().get(name)
        over, problems = threading.Event(), list[BaseException]()

        def watch() -> None:
            while not over.wait(1):
                now = self._instances().get(name, was)
                # Its outputs come last.
                told = self.outputs().get("hosts", {}).get(name, {})
                if now and now != was and told.get("address") == now[1]:
                    if was:
                        self.lab.remove(name)
                    address = (HOSTS | LATER)[name]
                    self.lab.up([LabHost(name, address)], print)
                    self._let_through()
                    if was and name in STORAGE:
                        self._stores.moved(was[1], now[1])
                    self._boot(name, told)
                    return

        def guarded() -> None:
            try:
                watch()
            except BaseException as problem:
                problems.append(problem)

        watching = threading.Thread(target=guarded)
        watching.start()
        try:
            yield
        finally:
            over.set()
            watching.join()
            assert not problems, problems

    def _boot(self, name: str, told: Mapping[str, Any]) -> None:
        """Have a host of the lab be what its instance would be after its first boot.

        `told`: what Terraform tells of it.
        """
        if name in STORAGE:
            # Before anybody can log in.
            as_root(self.lab, name, without_nftables.PURGE)
            source = without_nftables.SOURCE.encode()
            as_root(self.lab, name, 'cat > "$1"', without_nftables.LIST, text=source)
        self._is_instance(name, told["ssh_user"], told["address"])
        if name in STORAGE:
            self._is_scylla_image(name)
        if told["group"] == "kairosdb":
            (device,) = told["data_devices"]
            self._attach(name, device, EXPERIMENT["aws"]["queue_volume_gib"])

    def _let_through(self) -> None:
        subprocess.run(
            self.lab.network.inside("nft", "-f", "-"),
            input=security_groups(self.state(), _VPC),
            text=True,
            check=True,
        )

    def _instances(self) -> dict[str, tuple[str, str]]:
        """Id and private address of each instance, by the host's name, as Terraform noted last."""
        try:
            state = json.loads((self.folder / "terraform.tfstate").read_text())
        except ValueError:  # It is being written.
            return {}
        return {
            match[1]: (str(each["attributes"]["id"]), str(each["attributes"]["private_ip"]))
            for resource in state["resources"]
            if resource["type"] == "aws_instance"
            and (match := re.search(r"\[\"([a-z0-9-]+)\"\]$", resource["module"]))
            for each in resource["instances"]
        }

    def _is_instance(self, name: str, user: str, address: str) -> None:
        as_root(self.lab, name, _ADDRESS, f"{address}/{_VPC.partition('/')[2]}")
        key = base64.b64encode((self._base / "host").read_bytes())
        as_root(self.lab, name, _LOGIN, user, self._login, text=key)

    def _is_scylla_image(self, name: str) -> None:
        sent = ["tar", "--create", "--directory", self._base / "packages", "repository", "key.gpg"]
        repository = subprocess.run(sent, check=True, capture_output=True).stdout
        _, types = table()
        shards = types[EXPERIMENT["aws"]["storage_instance_type"]].shards
        store = f"{_STORES[STORAGE.index(name)]}:{PORT}"
        packages = " ".join(PACKAGES | OF_IMAGE)
        given = (store, str(shards), packages, scylla_stand_in.package_version(VERSION))
        as_root(self.lab, name, _SCYLLA_IMAGE, *given, text=repository)

    def _attach(self, name: str, device: str, gib: int) -> None:
        """An EBS volume: a file of this machine as a block device of the host."""
        file = self._base / f"{name}.volume"
        with file.open("wb") as volume:
            volume.truncate(gib << 30)
        loop = subprocess.run(
            ["losetup", "--find", "--show", file], check=True, capture_output=True, text=True
        ).stdout.strip()
        self._ends.callback(subprocess.run, ["losetup", "--detach", loop], check=False)
        number = Path(loop).stat().st_rdev
        # Hosts may not make devices themselves.
        script = 'mknod /dev/nvme1n1 b "$1" "$2"; mkdir -p "${3%/*}"; ln -s /dev/nvme1n1 "$3"'
        given = [str(os.major(number)), str(os.minor(number)), device]
        pid = self.lab._running.first_process(name)
        subprocess.run(
            ["nsenter", f"--target={pid}", "--mount", "sh", "-euc", script, "sh", *given],
            check=True,
        )

    def close(self) -> None:
        """End what is not the lab's."""
        self._ends.close()


def security_groups(state: Mapping[str, Mapping[str, Any]], vpc_cidr: str) -> str:
    """What AWS's security groups let through, as rules for the lab's switch.

    A packet passes if the sender's groups let it out and the receiver's let it in. Answers are told
    by their port alone, as a switch keeps no state.

    Args:
        state: what Terraform made, as `Cloud.state` gives it.
        vpc_cidr: addresses of hosts; what others send is not looked at.
    """
    groups: dict[str, list[str]] = {}
    rules: dict[str, list[Mapping[str, Any]]] = {"ingress": [], "egress": []}
    for address, values in state.items():
        if address.endswith("aws_instance.host"):
            groups[values["private_ip"]] = values["vpc_security_group_ids"]
        for kind, found in rules.items():
            if f"aws_vpc_security_group_{kind}_rule." in address:
                found.append(values)

    def lets(kind: str, here: str, there: str, port: int) -> bool:
        return any(
            rule["security_group_id"] in groups[here]
            and (rule["ip_protocol"] == "-1" or rule["from_port"] <= port <= rule["to_port"])
            and (
                rule["referenced_security_group_id"] in groups[there]
                or ip_address(there) in ip_network(rule["cidr_ipv4"] or "255.255.255.255/32")
            )
            for rule in rules[kind]
        )

    lines = []
    for sender, receiver in itertools.permutations(sorted(groups), 2):
        for port in sorted({rule["from_port"] for rule in rules["ingress"]}):
            out, into = (sender, receiver, port), (receiver, sender, port)
            if lets("egress", *out) and lets("ingress", *into):
                lines.append(f"ip saddr {sender} ip daddr {receiver} tcp dport {port} accept")
                lines.append(f"ip saddr {receiver} ip daddr {sender} tcp sport {port} accept")
    return (
        "table bridge security_groups\ndelete table bridge security_groups\n"
        "table bridge security_groups {\nchain forward {\ntype filter hook forward priority -10\n"
        + "".join(f"{line}\n" for line in lines)
        + f"ip saddr {vpc_cidr} ip daddr {vpc_cidr} drop\n}}\n}}\n"
    )


@contextlib.contextmanager
def _agent(folder: Path) -> Iterator[str]:
    """The socket of an SSH agent that has the login's key."""
    socket = folder / "agent"
    agent = subprocess.Popen(
        ["ssh-agent", "-D", "-a", socket], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while not socket.exists():
            assert agent.poll() is None
        subprocess.run(
            ["ssh-add", "-q", folder / "login"],
            env=os.environ | {"SSH_AUTH_SOCK": str(socket)},
            check=True,
        )
        yield str(socket)
    finally:
        agent.kill()
        agent.wait()


def lab_hosts() -> list[LabHost]:
    """The hosts to have, before anybody knows which addresses AWS gives them."""
    return [LabHost(name, address) for name, address in HOSTS.items()]
