"""The checks of a deployed target: each asks the real servers and hosts, and goes on after trouble.

A check is a function from the context to its findings. What it gathered is judged in `judge`.
"""

import json
import shlex
import subprocess
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from kairoscope import releases
from kairoscope.deploy.verify import judge, probe, wire
from kairoscope.deploy.verify.finding import Finding
from kairoscope.errors import UserError
from kairoscope.hosts import prometheus, secret_files, services, ssh
from kairoscope.hosts.deployed import finished_file
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.hosts.loader import best_offset, current_version
from kairoscope.hosts.loader import version as loader_version
from kairoscope.hosts.secret_files import Access
from kairoscope.plan import Plan
from kairoscope.run_folder import ClockOffset
from kairoscope.stacks.kairosdb.servers import client, nodetool
from kairoscope.stacks.kairosdb.servers.client import Client
from kairoscope.stacks.kairosdb.settings import hocon

# The points that are written and read back; one series for each KairosDB node.
METRIC = "kairoscope_verify"
# After a point has left KairosDB's queue: with consistency ONE a read may meet the one replica that
# is behind.
READ_BACK_S = 30.0

FIREWALL_FILE = "/etc/kairoscope/firewall.nft"
FIREWALL_UNIT = "kairoscope-firewall.service"
# By the variable that a host has which runs it.
MONITORING_UNITS = {
    "node_exporter_port": "kairoscope-node-exporter.service",
    "alertmanager_port": "kairoscope-alertmanager.service",
    "grafana_port": "kairoscope-grafana.service",
}

_REQUEST_S = 20.0
_PINGS = 5
_CLOCK = "import sys,time\nfor _ in sys.stdin: print(time.time_ns() // 1000, flush=True)"
_PROBE = Path(probe.__file__)
_TROUBLE = (ssh.RemoteError, nodetool.NodetoolError, UserError, OSError)


@dataclass
class Context:
    """A target, and how to get at it.

    Fields:
        hosts: its hosts, all of them.
        reached: names of those that answer; checks leave the others alone.
        client: requests to the servers of those.
    """

    target: str
    hosts: Inventory
    plan: Plan
    reached: set[str]
    client: Client = field(default_factory=Client)

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Have `client` reach the servers of those that are reached."""
        with client.connect(self.hosts, self.up(self.hosts.hosts)) as self.client:
            yield

    def up(self, hosts: Sequence[Host]) -> list[Host]:
        """Those of some hosts that are reached."""
        return [host for host in hosts if host.name in self.reached]

    @property
    def storage(self) -> list[Host]:
        """Storage nodes that are reached."""
        return self.up(self.hosts.storage)

    @property
    def kairosdb(self) -> list[Host]:
        """KairosDB nodes that are reached."""
        return self.up(self.hosts.kairosdb)

    @property
    def all(self) -> list[Host]:
        """All hosts that are reached."""
        return self.up(self.hosts.all)

    @property
    def access(self) -> Access:
        """What proves us to the servers of a secured target."""
        assert self.client.access is not None
        return self.client.access

    @cached_property
    def facts(self) -> dict[str, dict[str, Any]]:
        """What each managed host says of itself, by name; {"trouble": …} of one that does not."""

        def look(host: Host) -> dict[str, Any]:
            units = [unit for unit in (host.vars.get("unit"), FIREWALL_UNIT) if unit]
            units += [unit for port, unit in MONITORING_UNITS.items() if port in host.vars]
            folders = [str(host.vars.get("home", "/")), "/"]
            folders += [host.vars["keyspaces_dir"]] if "keyspaces_dir" in host.vars else []
            try:
                found: dict[str, Any] = on_host(host, "facts", folders, units, FIREWALL_FILE)
            except _TROUBLE as error:
                return {"trouble": str(error)}
            return found

        found = ssh.on_all(self.all, look)
        return {host.name: facts for host, facts in zip(self.all, found, strict=True)}

    def fact(self, host: Host, name: str) -> Any:
        """One fact of a host. OSError if it did not tell any."""
        if "trouble" in self.facts[host.name]:
            raise OSError(self.facts[host.name]["trouble"])
        return self.facts[host.name][name]


@dataclass(frozen=True)
class Check:
    """A check: its name in the table, what it does, and what a target must be for it."""

    name: str
    run: Callable[[Context, str], Iterable[Finding]]
    managed: bool = False
    secured: bool = False
    watched: bool = False
    sharded: bool = False

    def not_for(self, context: Context) -> str:
        """Why it does not apply to a target; "" if it does."""
        if self.managed and not context.hosts.managed:
            return "all on this machine's loopback: no hosts of their own"
        if self.secured and context.client.access is None:
            return "the target is not secured"
        if self.watched and not context.hosts.monitoring:
            return "no monitoring host: MONITORING=true"
        if self.sharded and context.hosts.storage[0].vars["storage_engine"] != "scylla":
            return "Cassandra has no shards"
        return ""

    def findings(self, context: Context) -> list[Finding]:
        """What it finds. Trouble in getting there is a finding too."""
        if why := self.not_for(context):
            return [Finding.skipped(self.name, why)]
        try:
            found = list(self.run(context, self.name))
            # Nothing was found where nobody could be asked.
            return found or [Finding.of(self.name, "", "no host reached", "an answer", False)]
        except _TROUBLE as error:
            return [Finding.of(self.name, "", _text(error), "an answer", False)]
        except Exception as error:  # a bug of ours must not hide what the other checks find
            return [Finding.of(self.name, "", f"error in Kairoscope: {error!r}", "none", False)]


def _text(error: Exception) -> str:
    return error.message if isinstance(error, UserError) else str(error)


def on_host(host: Host, verb: str, *arguments: Any, timeout_s: float = 60) -> Any:
    """Have a host run a verb of `probe`; what it found.

    Raises:
        RemoteError: it cannot.
        UserError: see `remote.ssh`.
    """
    line = ["python3", "-", verb, json.dumps(arguments)]
    return json.loads(ssh.run(host, line, sudo=True, stdin=_PROBE.read_text(), timeout_s=timeout_s))


def _each(
    check: str, hosts: Sequence[Host], wanted: str, look: Callable[[Host], tuple[str, bool]]
) -> list[Finding]:
    """A finding for each host, looked at side by side: `look` gives what was found, and if well."""

    def one(host: Host) -> Finding:
        try:
            found, well = look(host)
        except _TROUBLE as error:
            found, well = _text(error), False
        return Finding.of(check, host.name, found, wanted, well)

    return ssh.on_all(hosts, one)


# What runs.


def deployed(context: Context, check: str) -> Iterable[Finding]:
    """The last deploy ended, so that what runs is of one plan."""
    well = finished_file(context.target).exists()
    yield Finding.of(check, "", "yes" if well else "no: make deploy", "yes", well)


def running(context: Context, check: str) -> Iterable[Finding]:
    """Every server's process runs."""
    processes = services.of(context.hosts, context.target)

    def look(host: Host) -> tuple[str, bool]:
        process = processes.get(host.name)
        state = process.state if process else "not defined"
        return state, state == "RUNNING"

    return _each(check, context.up(context.hosts.hosts), "RUNNING", look)


def at_boot(context: Context, check: str) -> Iterable[Finding]:
    """Services come back by themselves after a reboot."""

    def look(host: Host) -> tuple[str, bool]:
        units: dict[str, list[str]] = context.fact(host, "units")
        off = [
            f"{unit} {state[1] or 'unknown'}"
            for unit, state in units.items()
            if state[1] != "enabled"
        ]
        return ", ".join(off) or "enabled", not off

    return _each(check, context.all, "enabled", look)


def ring(context: Context, check: str) -> Iterable[Finding]:
    """All storage nodes are up and normal, as each of them sees it."""
    wanted = [host.address for host in context.hosts.storage]

    def look(host: Host) -> tuple[str, bool]:
        found = judge.ring(nodetool.run(host, "status"))
        problems = judge.ring_problems(found, wanted)
        return ", ".join(problems) or f"{len(found)} UN", not problems

    return _each(check, context.storage, f"{len(wanted)} UN", look)


def schema(context: Context, check: str) -> Iterable[Finding]:
    """All nodes have the same schema."""

    def look(host: Host) -> tuple[str, bool]:
        versions = judge.schema_versions(nodetool.run(host, "describecluster"))
        found = ", ".join(f"{name[:8]}: {len(nodes)} nodes" for name, nodes in versions.items())
        return found or "none", judge.schema_well(versions, len(context.hosts.storage))

    wanted = f"one, of {len(context.hosts.storage)} nodes"
    return _each(check, context.storage[:1], wanted, look)


def replication(context: Context, check: str) -> Iterable[Finding]:
    """The keyspace has the planned copies, and where there are roles they have several too."""
    if not context.storage:
        return
    keyspace = str(context.hosts.storage[0].vars["kairosdb_keyspace"])
    with context.client.cql(context.storage) as session:
        rows = session.execute("SELECT keyspace_name, replication FROM system_schema.keyspaces")
        found = {row.keyspace_name: judge.replicas(dict(row.replication)) for row in rows}
    wanted = judge.replication(context.plan)
    there = found.get(keyspace, {})
    yield Finding.of(check, keyspace, _copies(there), _copies(wanted), there == wanted)
    # Without it nobody can log in once the node with the only copy is down.
    if context.client.access and (roles := found.get("system_auth")) is not None:
        least = min(len(context.hosts.storage), 2)
        well = sum(roles.values()) >= least
        yield Finding.of(check, "system_auth", _copies(roles), f"{least} or more", well)


def _copies(replicas: dict[str, int]) -> str:
    return ", ".join(f"{name}: {copies}" for name, copies in replicas.items()) or "not there"


def versions(context: Context, check: str) -> Iterable[Finding]:
    """Every node runs the version that was deployed, so all the same."""
    engine = str(context.hosts.storage[0].vars["storage_engine"])
    wanted = str(context.hosts.storage[0].vars.get(f"{engine}_version", ""))

    def store(host: Host) -> tuple[str, bool]:
        # By CQL: nodetool says 3.0.8 of every ScyllaDB.
        found = context.client.server(host)
        if found.trouble:
            raise OSError(f"did not tell: {found.trouble}")
        well = found.engine == engine and releases.same_release(found.version, wanted)
        return f"{found.engine} {found.version}", well

    yield from _each(check, context.storage, f"{engine} {wanted}", store)
    wanted_kairosdb = str(context.hosts.kairosdb[0].vars["kairosdb_version"])

    def kairosdb(host: Host) -> tuple[str, bool]:
        found = str(context.client.get_json(host, "/api/v1/version", _REQUEST_S)["version"])
        return found, releases.same_release(found.removeprefix("KairosDB "), wanted_kairosdb)

    yield from _each(check, context.kairosdb, f"KairosDB {wanted_kairosdb}", kairosdb)
    current = current_version()

    def loader(host: Host) -> tuple[str, bool]:
        found = loader_version(host)
        return found or "does not start", found == current

    yield from _each(check, context.up(context.hosts.loader), current, loader)


# Of what CQL's SUPPORTED has in every release (github.com/scylladb/scylladb, docs/dev/
# protocol-extensions.md, and make_supported in transport/server.cc at 5.2.19).
_SHARDS = "SCYLLA_NR_SHARDS"


def shards(context: Context, check: str) -> Iterable[Finding]:
    """ScyllaDB's nodes have the shards that KairosDB's connections and the store's memory are of.

    How many there are is the host's setup to say, which keeps threads for interrupts.
    """
    wanted = int(context.plan.storage["shards"])

    def look(host: Host) -> tuple[str, bool]:
        endpoint = context.client.ways.endpoint(host)
        (found, *_) = wire.cql_supported(endpoint, context.client.tls).get(_SHARDS, ["not told"])
        well = found == str(wanted)
        return found if well else f"{found}: say so, by cluster.shards of the experiment", well

    return _each(check, context.storage, f"{wanted}, as planned", look)


def healthy(context: Context, check: str) -> Iterable[Finding]:
    """KairosDB reaches its store, and takes points."""

    def look(host: Host) -> tuple[str, bool]:
        found = context.client.kairosdb(host)
        if found.read_only:
            return "in read-only mode", False
        if not found.healthy:
            return "; ".join(found.troubles) or "not healthy", False
        return "healthy", True

    return _each(check, context.kairosdb, "healthy", look)


def given_up(context: Context, check: str) -> Iterable[Finding]:
    """KairosDB's queue has stored, or still has, all that it took: none given up, none torn."""

    def look(host: Host) -> tuple[str, bool]:
        found = context.client.kairosdb(host)
        if not found.answers:
            return "does not tell", False
        lost = {"refused by the store": found.dead_letters, "unreadable": found.unreadable}
        off = [f"{count:,} {what}" for what, count in lost.items() if count]
        see = "; see: kairoscope queue inspect" if off else ""
        return (", ".join(off) or "none") + see, not off

    return _each(check, context.kairosdb, "none", look)


def settings(context: Context, check: str) -> Iterable[Finding]:
    """KairosDB runs with the file that was written for it, and that is the plan's."""

    def look(host: Host) -> tuple[str, bool]:
        answer = context.client.get_json(host, "/api/v1/kairoscope/settings", _REQUEST_S)
        text = ssh.run(host, ["cat", f"{host.home}/conf/kairosdb.conf"], sudo=True)
        planned = judge.without_secrets(hocon.parse(text, f"{host.name}: kairosdb.conf"))
        planned |= judge.planned_settings(context.plan)
        off = hocon.effective_differences(planned, answer["settings"])
        return "; ".join(off) or f"{len(planned)} as planned", not off

    return _each(check, context.kairosdb, "as planned", look)


def read_back(context: Context, check: str) -> Iterable[Finding]:
    """A point written through each KairosDB node is read back from all of them."""
    nodes = context.kairosdb
    now_ms = time.time_ns() // 1_000_000
    written = []
    for writer in nodes:
        try:
            point = [now_ms, _value(writer, now_ms)]
            context.client.post(writer, "/api/v1/datapoints", _points(writer, point))
            written.append(writer)
        except OSError as error:
            yield Finding.of(check, writer.name, str(error), "a point written", False)
    deadline = time.monotonic() + context.plan.held_s + READ_BACK_S

    def look(writer: Host, reader: Host) -> tuple[str, bool]:
        wanted = [[now_ms, _value(writer, now_ms)]]
        while True:
            found = _read(context, reader, writer, now_ms)
            if found == wanted or time.monotonic() > deadline:
                break
            time.sleep(0.5)
        return ("the point" if found == wanted else f"{found or 'nothing'}"), found == wanted

    for writer in written:
        yield from _each(check, nodes, f"the point of {writer.name}", partial(look, writer))


def _value(writer: Host, now_ms: int) -> int:
    """Of its series and time, so that no other point passes for it."""
    return zlib.crc32(f"{writer.name} {now_ms}".encode())


def _points(writer: Host, point: list[int]) -> list[dict[str, Any]]:
    return [{"name": METRIC, "datapoints": [point], "tags": {"node": writer.name}}]


def _read(context: Context, reader: Host, writer: Host, now_ms: int) -> list[list[int]]:
    metric = {"name": METRIC, "tags": {"node": [writer.name]}}
    query = {"start_absolute": now_ms, "end_absolute": now_ms, "metrics": [metric]}
    answer = json.loads(context.client.post(reader, "/api/v1/datapoints/query", query))
    return [point for result in answer["queries"][0]["results"] for point in result["values"]]


# Hosts.


def clocks(context: Context, check: str) -> Iterable[Finding]:
    """The hosts' clocks agree: what was written last is decided by them."""
    limit_ms = context.plan.experiment.limits.clock_offset_ms

    def look(host: Host) -> tuple[str, bool]:
        offset = _clock_offset(host)
        return str(offset), not offset.exceeds(limit_ms)

    return _each(check, context.all, f"within {limit_ms:g} ms of this machine", look)


def _clock_offset(host: Host) -> ClockOffset:
    line = ssh.command(host, ["python3", "-c", _CLOCK])
    pings = []
    with subprocess.Popen(
        line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as ping:
        assert ping.stdin and ping.stdout
        for _ in range(_PINGS):
            sent = time.time_ns() // 1000
            ping.stdin.write("\n")
            ping.stdin.flush()
            answer = ping.stdout.readline()
            if not answer:
                raise OSError(f"{shlex.join(line)}: no answer")
            pings.append((sent, int(answer), time.time_ns() // 1000))
        ping.stdin.close()
    return best_offset(pings)


def disks(context: Context, check: str) -> Iterable[Finding]:
    """There is room on the disks of the system, of the service's folder and of the data."""

    def look(host: Host) -> tuple[str, bool]:
        found: dict[str, list[int]] = context.fact(host, "disks")
        texts = [f"{folder} {free / total:.0%}" for folder, (free, total) in found.items()]
        return ", ".join(texts), all(judge.disk_well(*disk) for disk in found.values())

    return _each(check, context.all, f"{judge.DISK_FREE_SHARE:.0%} free", look)


def firewall(context: Context, check: str) -> Iterable[Finding]:
    """The rules that the deploy wrote are those that the kernel has."""

    def look(host: Host) -> tuple[str, bool]:
        well = bool(context.fact(host, "firewall"))
        return ("as deployed" if well else "not as deployed, or none"), well

    return _each(check, context.all, "as deployed", look)


def ports(context: Context, check: str) -> Iterable[Finding]:
    """From a host of each group, every host's ports: open what must be, closed all else."""
    table = judge.Firewall.read()
    telnet = context.client.access is None or context.plan.experiment.load.protocol.startswith(
        "telnet"
    )
    looks: dict[str, list[Host]] = {host.name: [] for host in context.all}
    for target in context.all:
        for source in _one_of_each_group(context, target):
            looks[source.name].append(target)

    def look_from(source: Host) -> list[Finding]:
        targets = looks[source.name]
        try:
            tried = {t.name: sorted(table.known(t) | _listening(context, t)) for t in targets}
            endpoints = [[t.address, port] for t in targets for port in tried[t.name]]
            hows = iter(on_host(source, "connect_all", endpoints, timeout_s=300))
        except _TROUBLE as error:
            return [Finding.of(check, f"from {source.name}", _text(error), "an answer", False)]
        found = []
        for target in targets:
            reached = {port for port in tried[target.name] if next(hows) == probe.OPEN}
            allowed, listening = table.lets_in(source, target, telnet), _listening(context, target)
            problems = judge.port_problems(reached, allowed, listening)
            said = ", ".join(problems) or _ports(reached)
            wanted = _ports(allowed & listening)
            where = f"{target.name} from {source.name}"
            found.append(Finding.of(check, where, said, wanted, not problems))
        return found

    for findings in ssh.on_all([host for host in context.all if looks[host.name]], look_from):
        yield from findings


def _one_of_each_group(context: Context, target: Host) -> list[Host]:
    """Hosts to look at another from: the first of each group that is not that host itself."""
    first: dict[str, Host] = {}
    for host in context.all:
        if host is not target:
            first.setdefault(host.role, host)
    return list(first.values())


def _listening(context: Context, host: Host) -> set[int]:
    found = context.fact(host, "listening")
    return judge.listening_ports(found, host.address) - {_ssh_port(host)}


def _ssh_port(host: Host) -> int:
    return int(host.vars.get("firewall_ssh_port", host.vars.get("ansible_port", 22)))


def _ports(ports: set[int]) -> str:
    return ", ".join(map(str, sorted(ports))) or "none"


# Who watches.


def monitoring(context: Context, check: str) -> Iterable[Finding]:
    """Prometheus asks every server, each answers, and it has and evaluates the rules."""
    (host,) = context.hosts.monitoring
    found = prometheus.known(host, prometheus.FIRST_ROUND_S)
    wanted = prometheus.wanted(context.hosts)
    silent = judge.not_watched(found, wanted)
    yield Finding.of(
        *(check, "targets", "; ".join(silent) or f"{len(found.targets)} as wanted"),
        *("all up, loaders under a load", not silent),
    )
    broken = judge.broken_rules(found, judge.rule_names())
    yield Finding.of(
        check, "rules", "; ".join(broken) or f"{len(found.rules)} ok", "all ok", not broken
    )


# Who is let in.


def certificates(context: Context, check: str) -> Iterable[Finding]:
    """Servers show certificates of our CA, in their name, that last."""
    wanted = f"its name and address, {judge.CERTIFICATE_DAYS} days or more"

    def look(host: Host) -> tuple[str, bool]:
        shown = wire.certificate(context.client.ways.endpoint(host), context.access.tls)
        problems = judge.certificate_problems(shown, host, time.time())
        days = (shown.expires - time.time()) / 86_400
        return ", ".join(problems) or f"{days:,.0f} days left", not problems

    yield from _each(check, [*context.storage, *context.kairosdb], wanted, look)
    ends = secret_files.ends(context.access.folder)
    for name in ("CA", "_control"):
        days = (ends[name] - time.time()) / 86_400
        well = days >= judge.CERTIFICATE_DAYS
        where = "the CA" if name == "CA" else "this machine"
        yield Finding.of(check, where, f"{days:,.0f} days left", "30 days or more", well)


def cql_tls(context: Context, check: str) -> Iterable[Finding]:
    """CQL is for those with a certificate of ours: not plain, not over TLS without one."""

    def look(host: Host) -> tuple[str, bool]:
        endpoint = context.client.ways.endpoint(host)
        plain, _ = _say(endpoint, wire.CQL_OPTIONS)
        stranger, _ = _say(endpoint, wire.CQL_OPTIONS, anonymous=True)
        _, ours = probe.say(*endpoint, wire.CQL_OPTIONS, context.access.tls)
        problems = [
            *(["plain let in"] if plain == probe.OPEN else []),
            *(["let in without a certificate"] if stranger == probe.OPEN else []),
            *([] if ours else ["no answer with our certificate"]),
        ]
        return ", ".join(problems) or "with a certificate only", not problems

    return _each(check, context.storage, "with a certificate only", look)


def _say(
    endpoint: tuple[str, int], message: bytes, *, anonymous: bool = False
) -> tuple[str, bytes]:
    """Say something plain, or over TLS without a certificate."""
    return probe.say(*endpoint, message, probe.anonymous() if anonymous else None)


def internode_tls(context: Context, check: str) -> Iterable[Finding]:
    """The port between storage nodes likewise, seen from another of them."""

    def look(host: Host) -> tuple[str, bool]:
        others = [other for other in context.storage if other is not host]
        source = others[0] if others else host
        port = judge.internode_port(host)
        hows = on_host(
            source,
            "say_all",
            [
                [host.address, port, wire.INTERNODE_PLAIN.hex(), False],
                [host.address, port, wire.INTERNODE_PLAIN.hex(), True],
            ],
        )
        found = [
            f"{how} {kind}"
            for how, kind in zip(hows, ("plain", "without a certificate"), strict=True)
        ]
        return ", ".join(found), hows == [probe.CLOSED, probe.CLOSED]

    return _each(check, context.storage, "closed plain, closed without a certificate", look)


def default_superuser(context: Context, check: str) -> Iterable[Finding]:
    """The superuser that every fresh cluster has, with its known password, is refused."""

    def look(host: Host) -> tuple[str, bool]:
        endpoint = context.client.ways.endpoint(host)
        found = wire.cql_login(endpoint, context.access.tls, "cassandra", "cassandra")
        return found, found == wire.LOGIN_REFUSED

    return _each(check, context.storage, wire.LOGIN_REFUSED, look)


def plain_http(context: Context, check: str) -> Iterable[Finding]:
    """KairosDB does not answer over plain HTTP."""

    def look(host: Host) -> tuple[str, bool]:
        how, answer = _say(context.client.ways.endpoint(host), wire.HTTP_PLAIN)
        well = judge.http_refused(how, answer)
        return ("refused" if well else f"{how} {answer[:40].decode(errors='replace')!r}"), well

    return _each(check, context.kairosdb, "refused", look)


def rest_login(context: Context, check: str) -> Iterable[Finding]:
    """KairosDB's REST interface asks for a password, and for the right one."""
    logins = {"without": {}, "wrong": {"Authorization": "Basic a2Fpcm9zY29wZTp3cm9uZw=="}}

    def look(host: Host) -> tuple[str, bool]:
        found = {name: _status(context, host, headers) for name, headers in logins.items()}
        texts = [f"{status} {name}" for name, status in found.items()]
        return ", ".join(texts), set(found.values()) == {401}

    if not context.hosts.kairosdb[0].vars.get("rest_auth", True):
        return [Finding.skipped(check, "rest_auth is off in the inventory")]
    return _each(check, context.kairosdb, "401 without, 401 wrong", look)


def _status(context: Context, host: Host, headers: dict[str, str]) -> int:
    url = f"{context.client.url(host)}/api/v1/metricnames"
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 (our own servers)
    try:
        with urllib.request.urlopen(request, timeout=_REQUEST_S, context=context.client.tls) as got:  # noqa: S310
            return int(got.status)
    except urllib.error.HTTPError as error:
        return error.code


CHECKS = (
    Check("deploy finished", deployed),
    Check("running", running),
    Check("starts at boot", at_boot, managed=True),
    Check("ring", ring),
    Check("schema agreement", schema),
    Check("replication", replication),
    Check("versions", versions),
    Check("shards", shards, sharded=True),
    Check("KairosDB", healthy),
    Check("points given up", given_up),
    Check("settings", settings),
    Check("read back", read_back),
    Check("clock", clocks, managed=True),
    Check("disk space", disks),
    Check("monitoring", monitoring, watched=True),
    Check("firewall", firewall, managed=True),
    Check("ports", ports, managed=True),
    Check("certificate", certificates, secured=True),
    Check("CQL over TLS", cql_tls, secured=True),
    Check("between nodes", internode_tls, secured=True),
    Check("default superuser", default_superuser, secured=True),
    Check("plain HTTP", plain_http, secured=True),
    Check("REST login", rest_login, secured=True),
)
