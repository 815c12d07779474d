"""From Terraform's outputs to the inventory that Ansible and a run read."""

from typing import Any

from kairoscope.errors import UserError
from kairoscope.plan import Plan
from kairoscope.plan.instance_types import table

GROUPS = ("storage", "kairosdb", "loader", "monitoring")


def inventory(outputs: dict[str, Any], plan: Plan) -> dict[str, Any]:
    """The inventory of a provisioned target, in Ansible's YAML form.

    `outputs` as `Terraform.outputs` gives them. UserError if a storage node has other threads
    than the plan computed with.
    """
    hosts: dict[str, dict[str, Any]] = {group: {} for group in GROUPS}
    for name, host in sorted(outputs["hosts"].items(), key=lambda item: _place(item[0])):
        hosts[host["group"]][name] = _host(host, outputs, plan)
    return {
        "all": {
            "vars": {
                "target": plan.target,
                "cluster_name": outputs["name"],
                "storage_engine": plan.engine,
                "kairosdb_keyspace": "kairosdb",
                "results_bucket": outputs["results_bucket"],
                "aws_region": outputs["region"],
                "ansible_ssh_common_args": _way_in(outputs),
            },
            "children": {group: {"hosts": hosts[group]} for group in GROUPS},
        }
    }


def _place(name: str) -> tuple[str, int]:
    """storage-2 before storage-10."""
    role, _, number = name.rpartition("-")
    return role, int(number)


def _host(host: dict[str, Any], outputs: dict[str, Any], plan: Plan) -> dict[str, Any]:
    """Variables of one host: those that the roles of its group read."""
    ports = outputs["ports"]
    reached_by = host["instance_id"] if outputs["access"] == "ssm" else host["address"]
    common = {
        "ansible_host": reached_by,
        "ansible_user": host["ssh_user"],
        "address": host["address"],
        "dns_name": host["dns"],
        "instance_id": host["instance_id"],
        "zone": host["zone"],
        "rack": host["rack"],
        "vcpus": host["vcpus"],
        "data_devices": host["data_devices"],
    }
    if host["group"] == "storage":
        return common | {
            "shards": _shards(host, plan),
            "native_transport_port": ports["cql"],
            "storage_port": ports["storage"],
        }
    if host["group"] == "kairosdb":
        return common | {
            "http_port": ports["kairosdb_http"],
            "telnet_port": ports["kairosdb_telnet"],
        }
    return common


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
    """What ssh needs to reach a host in a private subnet: through the bastion, or through SSM."""
    if outputs["access"] == "ssm":
        return (
            "-o ProxyCommand='aws ssm start-session --target %h --region "
            f"{outputs['region']} --document-name AWS-StartSSHSession --parameters portNumber=%p'"
        )
    return f"-o ProxyJump={outputs['bastion_user']}@{outputs['bastion']}"
