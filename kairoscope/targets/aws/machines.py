"""From Terraform's outputs to machines."""

import shlex
from typing import Any
from urllib.parse import urlsplit

from kairoscope import paths
from kairoscope.errors import UserError
from kairoscope.hosts.machines import Machine, Machines
from kairoscope.plan import Plan
from kairoscope.targets.aws.instance_types import table


def of_outputs(outputs: dict[str, Any], plan: Plan) -> Machines:
    """The machines of a provisioned target.

    `outputs` as `Terraform.outputs` gives them. UserError if a storage node has other threads
    than the plan computed with.
    """
    hosts = sorted(outputs["hosts"].items(), key=lambda item: _place(item[0]))
    return Machines(
        [_machine(name, host, outputs, plan) for name, host in hosts],
        cluster_name=outputs["name"],
        variables={
            "results_bucket": outputs["results_bucket"],
            "aws_region": outputs["region"],
            "bastion_instance": outputs.get("bastion_instance"),
            "ansible_ssh_common_args": _way_in(outputs),
            # The load balancer stands before KairosDB in its subnets, with addresses that nobody
            # knows beforehand; hosts there are kept out by their security groups.
            "firewall_extra": [
                {
                    "to": "kairosdb",
                    "cidrs": [outputs["vpc_cidr"]],
                    "ports": ["kairosdb_http"],
                    "why": "Load balancer",
                    "hosts": False,
                }
            ],
        },
        origin="from Terraform's outputs",
    )


def _place(name: str) -> tuple[str, int]:
    """storage-2 before storage-10."""
    role, _, number = name.rpartition("-")
    return role, int(number)


def _machine(name: str, host: dict[str, Any], outputs: dict[str, Any], plan: Plan) -> Machine:
    """One host: how it is reached, and what AWS knows of it."""
    ports = outputs["ports"]
    way = {
        "ansible_host": host["instance_id"] if outputs["access"] == "ssm" else host["address"],
        "ansible_user": host["ssh_user"],
    }
    more = {
        "dns_name": host["dns"],
        "instance_id": host["instance_id"],
        "image": host["image"],
        "zone": host["zone"],
        "rack": host["rack"],
        "vcpus": host["vcpus"],
        "data_devices": host["data_devices"],
    }
    if host["group"] == "storage":
        more |= {
            "shards": _shards(host, plan),
            "scylla_image": True,
            "native_transport_port": ports["cql"],
            "storage_port": ports["storage"],
        }
    if host["group"] == "kairosdb":
        more |= {"http_port": ports["kairosdb_http"], "telnet_port": ports["kairosdb_telnet"]}
        # Clients of the load balancer check the nodes' certificates: it passes TLS through.
        if url := outputs["kairosdb_url"]:
            more["certificate_names"] = [urlsplit(url).hostname]
    return Machine(name, host["group"], host["address"], way, more)


def _shards(host: dict[str, Any], plan: Plan) -> int:
    """Shards of a storage node, of the threads that AWS says it has."""
    _, types = table()
    known = types[host["instance_type"]]
    if known.vcpus != host["vcpus"]:
        raise UserError(
            f"AWS gives {host['instance_type']} {host['vcpus']} vCPUs, terraform/"
            f"instance-types.yml {known.vcpus}: correct the table and run the same command again"
        )
    shards: int = plan.storage["shards"]
    return shards


def _way_in(outputs: dict[str, Any]) -> str:
    """What ssh needs to reach a host in a private subnet: through the bastion, or through SSM.

    What AWS tells of the host keys of new hosts is in a file of the target's own (`known_hosts`);
    of others they are taken at the first login. They are verified from then on.
    """
    known = shlex.join(
        [
            "-o",
            f"UserKnownHostsFile={paths.target_dir('aws') / 'known_hosts'}",
            "-o",
            "StrictHostKeyChecking=accept-new",
        ]
    )
    if outputs["access"] == "ssm":
        proxy = (
            f"aws ssm start-session --target %h --region {outputs['region']} "
            "--document-name AWS-StartSSHSession --parameters portNumber=%p"
        )
    else:
        # Not ProxyJump: the ssh that it starts would not know of our file.
        proxy = (
            f"ssh {known} -o BatchMode=yes -W %h:%p {outputs['bastion_user']}@{outputs['bastion']}"
        )
    return f"{known} -o {shlex.quote(f'ProxyCommand={proxy}')}"
