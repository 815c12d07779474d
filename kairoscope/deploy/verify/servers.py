"""What runs, and with which version; and who watches it."""

from collections.abc import Iterable

from kairoscope import releases
from kairoscope.deploy.verify import answers
from kairoscope.deploy.verify.check import of_each
from kairoscope.deploy.verify.context import REQUEST_S, Context
from kairoscope.deploy.verify.finding import Finding
from kairoscope.hosts import prometheus, services
from kairoscope.hosts.deployed import finished_file
from kairoscope.hosts.inventory import Host
from kairoscope.hosts.loader import current_version
from kairoscope.hosts.loader import version as loader_version


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

    return of_each(check, context.up(context.hosts.hosts), "RUNNING", look)


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

    return of_each(check, context.all, "enabled", look)


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

    yield from of_each(check, context.storage, f"{engine} {wanted}", store)
    wanted_kairosdb = str(context.hosts.kairosdb[0].vars["kairosdb_version"])

    def kairosdb(host: Host) -> tuple[str, bool]:
        found = str(context.client.get_json(host, "/api/v1/version", REQUEST_S)["version"])
        return found, releases.same_release(found.removeprefix("KairosDB "), wanted_kairosdb)

    yield from of_each(check, context.kairosdb, f"KairosDB {wanted_kairosdb}", kairosdb)
    current = current_version()

    def loader(host: Host) -> tuple[str, bool]:
        found = loader_version(host)
        return found or "does not start", found == current

    yield from of_each(check, context.up(context.hosts.loader), current, loader)


def monitoring(context: Context, check: str) -> Iterable[Finding]:
    """Prometheus asks every server, each answers, and it has and evaluates the rules."""
    (host,) = context.hosts.monitoring
    found = prometheus.known(host, prometheus.FIRST_ROUND_S)
    wanted = prometheus.wanted(context.hosts)
    silent = answers.not_watched(found, wanted)
    yield Finding.of(
        *(check, "targets", "; ".join(silent) or f"{len(found.targets)} as wanted"),
        *("all up, loaders under a load", not silent),
    )
    broken = answers.broken_rules(found, answers.rule_names())
    yield Finding.of(
        check, "rules", "; ".join(broken) or f"{len(found.rules)} ok", "all ok", not broken
    )
