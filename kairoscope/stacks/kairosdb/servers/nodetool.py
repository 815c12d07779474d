"""Run nodetool, and read its `status` and its `proxyhistograms` as its users know them.

The two printed forms of the latter: six columns (Read, Write, Range, CAS Read, CAS Write, View
Write: Cassandra 3.11 to 5.0 and native ScyllaDB) and three (older ScyllaDB). Columns are found by
their header.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from kairoscope.hosts import ssh
from kairoscope.hosts.inventory import Host
from kairoscope.releases import number
from kairoscope.stacks.kairosdb.scylla import rest as scylla_rest
from kairoscope.stacks.kairosdb.servers import cassandra_counts

PERCENTILES = ("50%", "75%", "95%", "98%", "99%", "Min", "Max")

# ScyllaDB's own; releases before have a program in Java, which needs JMX and packages of its own.
NATIVE_SINCE = (6, 0)

REST_PROGRAM = Path(scylla_rest.__file__)
"""What asks the REST API in nodetool's stead; it needs nothing of ours."""

_COUNTS_PROGRAM = Path(cassandra_counts.__file__)

# Two words at most before "Latency"; the header's columns touch each other in some versions.
_COLUMN = re.compile(r"((?:CAS |View )?(?:Read|Write|Range)) Latency")
# A line of `nodetool status`: state and address.
_NODE = re.compile(r"^([UDX?][NLJM?S])\s+(\S+)\s", re.M)


class NodetoolError(RuntimeError):
    """nodetool could not be run, or could not reach its node."""


class FormatError(ValueError):
    """Text that is not what `nodetool proxyhistograms` prints."""


def run(host: Host, *arguments: str, timeout_s: float = 60) -> str:
    """Run one nodetool command for a storage node, on its host, and return what it printed.

    At the lowest priority: the store is being measured on the same machine. By the REST API, in the
    same form, where the node's release of ScyllaDB has no nodetool of its own.

    Raises:
        NodetoolError: it fails, or the host is not reached.
    """
    if by_rest(host):
        return rest(host, *arguments, timeout_s=timeout_s)
    return _run(host, [str(host.vars["nodetool"]), *arguments], None, timeout_s)


def by_rest(host: Host) -> bool:
    """Whether a storage node is asked by ScyllaDB's REST API instead of by nodetool."""
    return has_none(
        str(host.vars.get("storage_engine", "")), str(host.vars.get("scylla_version", ""))
    )


def has_none(engine: str, version: str) -> bool:
    """Whether that release of that engine comes without a nodetool that we would run."""
    release = number(version)
    return engine == "scylla" and bool(release) and release < NATIVE_SINCE


def rest(host: Host, *arguments: str, timeout_s: float = 60) -> str:
    """The same by the REST API of a ScyllaDB of any release; what there is: `scylla_rest.VERBS`.

    Raises:
        NodetoolError: it does not answer, or the host is not reached.
    """
    api = f"http://{host.vars['api_address']}:{host.vars['api_port']}"
    program = ["python3", "-", "--api", api, *arguments]
    return _run(host, program, REST_PROGRAM.read_text(), timeout_s)


def counts(host: Host) -> str:
    """What a storage node counted of its requests since it started: JSON, a look of `store_window`.

    Raises:
        NodetoolError: it does not answer, or the host is not reached.
    """
    if str(host.vars["storage_engine"]) == "scylla":
        return rest(host, "counters")
    return _by_agent(host, "counts")


def proxyhistograms_beside(host: Host) -> str:
    """What `nodetool proxyhistograms` prints, without a JVM that starts beside a load.

    By Cassandra's agent, of the same figures; ScyllaDB's nodetool is no Java program.

    Raises:
        NodetoolError: it does not answer, or the host is not reached.
    """
    if str(host.vars["storage_engine"]) == "scylla":
        return run(host, "proxyhistograms")
    return _by_agent(host, "proxyhistograms")


def _by_agent(host: Host, what: str) -> str:
    url = f"http://{host.vars['jolokia_address']}:{host.vars['jolokia_port']}/jolokia"
    return _run(host, ["python3", "-", url, what], _COUNTS_PROGRAM.read_text(), 60)


def _run(host: Host, program: list[str], stdin: str | None, timeout_s: float) -> str:
    line = ["nice", "-n", "19", *program]
    try:
        return ssh.run(host, line, sudo=True, stdin=stdin, timeout_s=timeout_s)
    except ssh.RemoteError as error:
        raise NodetoolError(str(error)) from error


def compacts(host: Host) -> bool:
    """Whether a storage node has compactions to do; not so if it cannot be asked."""
    try:
        said = run(host, "compactionstats")
    except NodetoolError:
        return False
    pending = re.search(r"pending tasks: *(\d+)", said)
    return bool(pending and int(pending[1]))


def ring(status: str) -> dict[str, str]:
    """State ("UN", "DN", "UJ", …) of each node by its address, of `nodetool status`."""
    return {address: state for state, address in _NODE.findall(status)}


def ring_problems(found: Mapping[str, str], wanted: Iterable[str]) -> list[str]:
    """What a node's view of the ring lacks; empty if all wanted nodes, and no others, are UN."""
    wanted = set(wanted)
    off = [f"{address} {state}" for address, state in found.items() if state != "UN"]
    missing = [f"{address} missing" for address in sorted(wanted - set(found))]
    others = [f"{address} not in the inventory" for address in sorted(set(found) - wanted)]
    return off + missing + others


def parse_proxyhistograms(text: str) -> dict[str, dict[str, float]]:
    """Latencies in µs by operation ("Read", "CAS Write", …) and row ("50%" … "Max").

    FormatError if the header, a row or a cell is missing, or a row does not fit the header.
    """
    lines = text.splitlines()
    header = next((i for i, line in enumerate(lines) if line.startswith("Percentile")), None)
    if header is None:
        raise FormatError("no line that begins with 'Percentile'")
    columns = _COLUMN.findall(lines[header])
    if not columns:
        raise FormatError(f"no latency column in the header: {lines[header]!r}")
    if "Write" not in columns or len(set(columns)) != len(columns):
        raise FormatError(f"unexpected columns: {columns}")
    rows: dict[str, list[float]] = {}
    for line in lines[header + 1 :]:
        label, *cells = line.split() or [""]
        if label not in PERCENTILES:
            continue
        try:
            values = [float(cell) for cell in cells]
        except ValueError as error:
            raise FormatError(f"not a number in row {label}: {line!r}") from error
        if len(values) != len(columns):
            raise FormatError(f"row {label} has {len(values)} cells, the header {len(columns)}")
        rows[label] = values
    if missing := [p for p in PERCENTILES if p not in rows]:
        raise FormatError(f"rows missing: {', '.join(missing)}")
    return {
        column: {label: rows[label][i] for label in PERCENTILES} for i, column in enumerate(columns)
    }
