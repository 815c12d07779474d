"""What the answers of a cluster's servers mean: texts and figures in, problems out. Pure."""

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from kairoscope import paths
from kairoscope.deploy.verify import probe
from kairoscope.deploy.verify.wire import Certificate
from kairoscope.hosts.inventory import Host
from kairoscope.hosts.prometheus import Known
from kairoscope.plan import Plan
from kairoscope.stacks.kairosdb.settings import hocon

# Below it a disk that fills is no longer a matter of days: Cassandra's compaction wants room for
# the tables it is merging, and KairosDB's queue grows while the store is away.
DISK_FREE_SHARE = 0.1

# Time to notice, and to rotate on a working day.
CERTIFICATE_DAYS = 30

_DAY_S = 86_400
_SCHEMA = re.compile(r"^\s+(\S+): \[(.*)\]$")


def schema_versions(description: str) -> dict[str, list[str]]:
    """Addresses by schema version (or "UNREACHABLE"), of `nodetool describecluster`."""
    _, _, section = description.partition("Schema versions:\n")
    versions: dict[str, list[str]] = {}
    for line in section.splitlines():
        if line and not line[0].isspace():
            break
        if match := _SCHEMA.match(line):
            versions.setdefault(match[1], []).extend(match[2].split(", "))
    return versions


def schema_well(versions: Mapping[str, Sequence[str]], nodes: int) -> bool:
    """Whether all nodes have one schema."""
    return "UNREACHABLE" not in versions and [len(v) for v in versions.values()] == [nodes]


def replication(plan: Plan) -> dict[str, int]:
    """Copies by datacenter that the plan wants."""
    return {plan.storage["datacenter"]: plan.storage["replication_factor"]}


def replicas(replication: Mapping[str, str]) -> dict[str, int]:
    """Copies by datacenter of a row in system_schema.keyspaces; of SimpleStrategy under its name.

    So a keyspace without regard to datacenters is never the wanted one.
    """
    name = str(replication.get("class", "")).rpartition(".")[2]
    copies = {key: int(value) for key, value in replication.items() if key != "class"}
    return (
        copies if name == "NetworkTopologyStrategy" else {f"{name} {k}": copies[k] for k in copies}
    )


_QUEUE_KEYS = (
    *("window_ms", "memory_mb", "disk_mb", "disk_free_mb", "keep_s", "sync_ms"),
    *("latest_expiry_s", "new_series_per_s"),
)


def planned_settings(plan: Plan) -> dict[str, Any]:
    """KairosDB's settings by key that follow from the plan, past the file they were written to."""
    wanted, cassandra = plan.kairosdb, "kairosdb.datastore.cassandra"
    settings = {
        f"{cassandra}.row_key_cache_size": wanted["row_key_cache_size"],
        f"{cassandra}.string_cache_size": wanted["string_cache_size"],
        f"{cassandra}.write_cluster.read_consistency_level": wanted["read_consistency"],
        f"{cassandra}.write_cluster.write_consistency_level": wanted["write_consistency"],
        "kairosdb.queue_processor.batch_size": wanted["batch_size"],
    }
    if wanted.get("queue", "stock") == "stock":  # Plans from before there were two have none.
        settings["kairosdb.queue_processor.memory_queue_size"] = wanted["memory_queue_size"]
        settings["kairosdb.ingest_executor.thread_count"] = wanted["ingest_threads"]
    else:
        settings |= {
            f"kairosdb.kairoscope.queue.{key}": wanted[f"queue_{key}"]
            for key in _QUEUE_KEYS
            if f"queue_{key}" in wanted  # Older plans have fewer.
        }
    if plan.storage["ttl_s"] > 0:
        settings[f"{cassandra}.datapoint_ttl"] = plan.storage["ttl_s"]
    return settings


@dataclass(frozen=True)
class Firewall:
    """Who may reach what, as the firewall role's table says."""

    allowed: list[dict[str, Any]]
    ports: dict[str, int]
    port_variables: dict[str, str]
    scylla_only: list[str]

    @classmethod
    def read(cls) -> "Firewall":
        """That of this checkout."""
        path = paths.ANSIBLE / "roles" / "firewall" / "vars" / "main.yml"
        facts = yaml.safe_load(path.read_text())
        return cls(
            *(
                facts[f"firewall_{name}"]
                for name in ("allowed", "ports", "port_variables", "scylla_only")
            )
        )

    def port(self, host: Host, name: str) -> int:
        """The port of a service on a host."""
        return int(host.vars.get(self.port_variables.get(name, ""), self.ports[name]))

    def known(self, host: Host) -> set[int]:
        """All ports of the table, as they are on a host."""
        return {self.port(host, name) for name in self.ports}

    def lets_in(self, source: Host, target: Host, telnet: bool) -> set[int]:
        """The ports of a host that another reaches, beside that of SSH.

        Of `firewall_extra` those rows count by which hosts of the target get through too (see the
        role's argument_specs).
        """
        rows = [row for row in self.allowed if source.role in row["from"]] + [
            row
            for row in target.vars.get("firewall_extra", [])
            if row.get("hosts", True) and _within(source.address, row["cidrs"])
        ]
        names = {port for row in rows if row["to"] == target.role for port in row["ports"]}
        if str(target.vars["storage_engine"]) != "scylla":
            names -= set(self.scylla_only)
        if not telnet:
            names.discard("kairosdb_telnet")
        return {self.port(target, name) for name in names}


def _within(address: str, cidrs: Iterable[str]) -> bool:
    return any(
        ipaddress.ip_address(address) in ipaddress.ip_network(cidr, strict=False) for cidr in cidrs
    )


def port_problems(reached: set[int], allowed: set[int], listening: set[int]) -> list[str]:
    """What is open and should not be, and what listens, is allowed, and is not reached."""
    return [
        *(f"{port} is open" for port in sorted(reached - allowed)),
        *(f"{port} is not reached" for port in sorted((allowed & listening) - reached)),
    ]


def listening_ports(listeners: Iterable[Sequence[Any]], address: str) -> set[int]:
    """Ports of [address, port] pairs that answer at an address of the host."""
    anywhere = {"0.0.0.0", "::", address}  # noqa: S104
    return {int(port) for bound, port in listeners if bound in anywhere}


def certificate_problems(shown: Certificate, host: Host, now: float) -> list[str]:
    """What is wrong with the certificate that a host's server shows; `now` in epoch seconds."""
    problems = [f"not for {name}" for name in (host.name, host.address) if name not in shown.names]
    if (days := (shown.expires - now) / _DAY_S) < CERTIFICATE_DAYS:
        problems.append(f"{days:,.0f} days left")
    return problems


def disk_well(free: int, total: int) -> bool:
    """Whether enough of a disk is free."""
    return free >= DISK_FREE_SHARE * total


def rule_names() -> set[str]:
    """Of all rules of this checkout's dashboards/prometheus/, but what a deploy adds of its own."""
    groups = [
        group
        for name in ("recording.yml", "alerts.yml")
        for group in yaml.safe_load((paths.DASHBOARDS / "prometheus" / name).read_text())["groups"]
    ]
    return {rule.get("alert") or rule["record"] for group in groups for rule in group["rules"]}


def not_watched(found: Known, wanted: Iterable[tuple[str, str]]) -> list[str]:
    """Servers that Prometheus does not ask, or that do not answer it."""
    return [
        *(f"{job} of {name}: not asked" for job, name in sorted(set(wanted) - set(found.targets))),
        *(f"{job} of {name}: {health}" for (job, name), health in found.silent.items()),
    ]


def broken_rules(found: Known, wanted: Iterable[str]) -> list[str]:
    """Rules that Prometheus does not have, or cannot evaluate."""
    return [
        *(f"{name}: not loaded" for name in sorted(set(wanted) - set(found.rules))),
        *(f"{name}: {health}" for name, health in sorted(found.rules.items()) if health != "ok"),
    ]


def without_secrets(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that KairosDB tells: those whose key names a secret it keeps to itself."""
    return {
        key: value
        for key, value in settings.items()
        if not any(part in key.lower() for part in hocon.SECRET)
    }


def internode_port(host: Host) -> int:
    """The port of a storage node where others speak TLS: ScyllaDB has one of its own for it."""
    scylla = host.vars["storage_engine"] == "scylla"
    return Firewall.read().ports["storage_tls"] if scylla else int(host.vars["storage_port"])


def http_refused(how: str, answer: bytes) -> bool:
    """Whether an attempt at plain HTTP got nothing: no connection, or "you must not" at most.

    Jetty ends the connection; other servers of HTTPS answer 400.
    """
    if how == probe.OPEN and not answer:
        return False
    return not answer.startswith(b"HTTP/") or b" 400 " in answer.splitlines()[0]
