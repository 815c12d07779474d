"""What runs, `verify` and the playbooks want of nodetool, from ScyllaDB's REST API, in its form.

ScyllaDB has a nodetool of its own from 6.0 on (tools/scylla-nodetool.cc); up to 5.x it is a Java
program that needs JMX. The REST API is in all of them. Paths and their answers as at 5.2.19
(api/api-doc/*.json); the printed forms are those of nodetool, with a line that says where they come
from. What has met a node: docs/scylla.md.

A program too, with nothing but Python's own library: run on the storage node, where alone the API
is reached (it has no authentication): `python3 - --api URL VERB [ARGUMENT …]`. The playbooks have
it there as `nodetool` (ansible/roles/scylla/tasks/nodetool.yml).
"""

import argparse
import json
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any

API = "http://127.0.0.1:10000"
"""Where the API listens, on the storage node."""

NOTE = "by ScyllaDB's REST API, not by nodetool"
"""What every answer says of itself."""

COLUMNS = {
    "Read": "read",
    "Write": "write",
    "Range": "range",
    "CAS Read": "cas_read",
    "CAS Write": "cas_write",
    "View Write": "view_write",
}
"""nodetool's columns, and their names in the API."""

COUNTED = ("read", "write")
"""Operations whose latencies the API counts in buckets since the start; the others it samples."""

# Flush and snapshot wait for the disk.
_TIMEOUT_S = 600

# What moves data answers when it is done; who calls bounds it.
_NO_LIMIT = None

# Between two looks at a repair, in s.
_AGAIN_S = 1.0

_PERCENTILES = (50, 75, 95, 98, 99)


class Api:
    """The REST API of one node. OSError if it does not answer, or not with 2xx and JSON."""

    def __init__(self, url: str = API) -> None:
        """`url`: without a path."""
        self.url = url.rstrip("/")
        # Whatever proxy the host's environment names is not the way to itself.
        self._direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def ask(
        self, method: str, path: str, timeout_s: float | None = _TIMEOUT_S, /, **query: str
    ) -> Any:
        """The answer to one request, None where it is empty; no `timeout_s`: however long."""
        text = f"?{urllib.parse.urlencode(query)}" if query else ""
        request = urllib.request.Request(f"{self.url}{path}{text}", method=method)  # noqa: S310
        try:
            with self._direct.open(request, timeout=timeout_s) as answer:
                said = answer.read()
        except urllib.error.HTTPError as error:
            said = " ".join(error.read().decode(errors="replace").split())
            raise OSError(f"{method} {path}: {error.code} {said}".strip()) from error
        except OSError as error:
            raise OSError(f"{self.url}{path}: {error}") from error
        try:
            return json.loads(said) if said.strip() else None
        except ValueError as error:
            raise OSError(f"{path}: not JSON: {error}") from error

    def get(self, path: str, **query: str) -> Any:
        """The answer to a GET."""
        return self.ask("GET", path, **query)


def _map(pairs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A map as the API spells one."""
    return {pair["key"]: pair["value"] for pair in pairs}


def percentile(samples: Sequence[float], share: float) -> float:
    """A percentile of sorted samples, between the two that are nearest; 0 of none, as nodetool."""
    if not samples:
        return 0.0
    place = share * (len(samples) + 1)
    if place < 1 or place >= len(samples):
        return float(samples[0] if place < 1 else samples[-1])
    below, above = samples[int(place) - 1], samples[int(place)]
    return below + (place - int(place)) * (above - below)


def proxyhistograms(api: Api) -> str:
    """`nodetool proxyhistograms`, of the samples that the server keeps.

    Those are the last 1,024 requests of each shard; but where it puts its shards together, 1,024
    are left, of one shard where each has as many (utils/histogram.hh: operator += of
    basic_ihistogram, whose ring pushes out what was in it). Nothing decays in them: those of an
    idle node stay.
    """
    samples = []
    for name in COLUMNS.values():
        found = api.get(f"/storage_proxy/metrics/{name}/moving_average_histogram")
        samples.append(sorted(found.get("hist", {}).get("sample", [])))
    lines = [
        f"proxy histograms, {NOTE}",
        f"{'Percentile':>10}" + "".join(f"{name + ' Latency':>19}" for name in COLUMNS),
        " " * 10 + f"{'(micros)':>19}" * len(COLUMNS),
    ]
    for label, share in [*((f"{p}%", p / 100) for p in _PERCENTILES), ("Min", 0.0), ("Max", 1.0)]:
        cells = "".join(f"{percentile(column, share):19.2f}" for column in samples)
        lines.append(f"{label:<10}{cells}")
    return "\n".join(lines) + "\n\n"


def status(api: Api) -> str:
    """`nodetool status`: every node's state, load, tokens and host id, by datacenter."""
    live, down = (set(api.get(f"/gossiper/endpoint/{how}/")) for how in ("live", "down"))
    moving = {
        letter: set(api.get(f"/storage_service/nodes/{state}"))
        for state, letter in (("leaving", "L"), ("joining", "J"), ("moving", "M"))
    }
    load = _map(api.get("/storage_service/load_map"))
    ids = _map(api.get("/storage_service/host_id"))
    owners = [pair["value"] for pair in api.get("/storage_service/tokens_endpoint")]
    racks: dict[str, list[tuple[str, str]]] = {}
    # One that is up and has no tokens yet is about to join, before it is called joining; one that
    # is down and has none has left.
    moving["J"] |= live - set(owners)
    for address in sorted((ids.keys() | live | down) & (set(owners) | live)):
        where = [str(api.get(f"/snitch/{what}", host=address)) for what in ("datacenter", "rack")]
        racks.setdefault(where[0], []).append((address, where[1]))
    lines = []
    for datacenter, nodes in sorted(racks.items()):
        head = f"Datacenter: {datacenter}"
        lines += [head, "=" * len(head), "Status=Up/Down", "|/ State=Normal/Leaving/Joining/Moving"]
        rows = [("--", "Address", "Load", "Tokens", "Owns", "Host ID", "Rack")]
        for address, rack in nodes:
            up = "U" if address in live else "D" if address in down else "?"
            state = next((s for s, found in moving.items() if address in found), "N")
            size = f"{load[address] / 1024:.2f} KB" if address in load else "?"
            count = str(owners.count(address))
            rows.append((up + state, address, size, count, "?", ids.get(address, "?"), rack))
        widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
        lines += [
            " ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        lines.append("")
    return "\n".join([*lines, f"Note: {NOTE}"]) + "\n"


def describecluster(api: Api) -> str:
    """`nodetool describecluster`: who has which version of the schema."""
    lines = [
        "Cluster Information:",
        f"\tName: {api.get('/storage_service/cluster_name')}",
        f"\tSnitch: {api.get('/snitch/name')}",
        f"\tPartitioner: {api.get('/storage_service/partitioner_name')}",
        "\tSchema versions:",
    ]
    for pair in api.get("/storage_proxy/schema_versions"):
        lines.append(f"\t\t{pair['key']}: [{', '.join(pair['value'])}]\n")
    return "\n".join([*lines, f"Note: {NOTE}"]) + "\n"


def version(api: Api) -> str:
    """`nodetool version`, but with ScyllaDB's own: the other is 3.0.8 in every release."""
    return f"ReleaseVersion: {api.get('/storage_service/scylla_release_version')}\nNote: {NOTE}\n"


def info(api: Api, *options: str) -> str:
    """`nodetool info`, and with `--tokens` the node's tokens and nothing else."""
    if options == ("--tokens",):
        found = api.get("/storage_service/tokens")
        return "".join(f"{'Token':<23}: {token}\n" for token in found) + f"Note: {NOTE}\n"
    if options:
        raise OSError(f"info {' '.join(options)}: only --tokens is had {NOTE}")
    uptime_s = api.get("/system/uptime_ms") // 1000
    rows = {
        "ID": api.get("/storage_service/hostid/local"),
        "Gossip active": _yes(api.get("/storage_service/gossiping")),
        "Native Transport active": _yes(api.get("/storage_service/native_transport")),
        "Load": f"{api.get('/storage_service/load') / 1024:.2f} KB",
        "Generation No": api.get("/storage_service/generation_number"),
        "Uptime (seconds)": uptime_s,
    }
    return "".join(f"{name:<23}: {value}\n" for name, value in rows.items()) + f"Note: {NOTE}\n"


def _yes(value: bool) -> str:
    return str(bool(value)).lower()


def netstats(api: Api) -> str:
    """`nodetool netstats`: what the node is doing in the ring, and the streams to and from it."""
    lines = [f"Mode: {api.get('/storage_service/operation_mode')}"]
    streams = api.get("/stream_manager/")
    if not streams:
        lines.append("Not sending any streams.")
    for stream in streams:
        lines.append(f"{stream['description']} {stream['plan_id']}")
        for session in stream.get("sessions", []):
            lines.append(f"    /{session['peer']}: {session.get('state', '?')}")
            for way in ("receiving", "sending"):
                summaries = session.get(f"{way}_summaries", [])
                size = sum(summary["total_size"] for summary in summaries)
                if summaries:
                    files = sum(summary["files"] for summary in summaries)
                    lines.append(f"        {way} {files} files, {size} bytes total")
    return "\n".join([*lines, f"Note: {NOTE}"]) + "\n"


def compactionstats(api: Api) -> str:
    """`nodetool compactionstats`: what is compacted now, and how much waits for it."""
    lines = [f"pending tasks: {api.get('/compaction_manager/metrics/pending_tasks')}"]
    for task in api.get("/compaction_manager/compactions"):
        done = f"{task['completed']} of {task['total']} {task['unit']}"
        lines.append(f"- {task['task_type']} {task['ks']}.{task['cf']}: {done}")
    return "\n".join([*lines, f"Note: {NOTE}"]) + "\n"


def gossipinfo(api: Api) -> str:
    """`nodetool gossipinfo`: what each node says of itself, its states by their numbers."""
    lines = []
    for node in api.get("/failure_detector/endpoints/"):
        lines += [
            f"/{node['addrs']}",
            f"  generation:{node['generation']}",
            f"  heartbeat:{node['version']}",
            f"  alive:{_yes(node['is_alive'])}",
        ]
        for state in node.get("application_state", []):
            lines.append(f"  {state['application_state']}:{state['version']}:{state['value']}")
    return "\n".join([*lines, f"Note: {NOTE}"]) + "\n"


def flush(api: Api, *names: str) -> str:
    """`nodetool flush KEYSPACE [TABLE …]`."""
    if not names:
        raise OSError("flush: which keyspace?")
    keyspace, *tables = names
    query = {"cf": ",".join(tables)} if tables else {}
    api.ask("POST", f"/storage_service/keyspace_flush/{urllib.parse.quote(keyspace)}", **query)
    return ""


def snapshot(api: Api, *arguments: str) -> str:
    """`nodetool snapshot -t TAG [KEYSPACE …]`, of all keyspaces where none is named."""
    tag, keyspaces = _tagged("snapshot", arguments)
    query = {"tag": tag, "sf": "false"} | ({"kn": ",".join(keyspaces)} if keyspaces else {})
    api.ask("POST", "/storage_service/snapshots", **query)
    return f"Snapshot directory: {tag}\nNote: {NOTE}\n"


def clearsnapshot(api: Api, *arguments: str) -> str:
    """`nodetool clearsnapshot -t TAG [KEYSPACE …]`."""
    tag, keyspaces = _tagged("clearsnapshot", arguments)
    query = {"tag": tag} | ({"kn": ",".join(keyspaces)} if keyspaces else {})
    api.ask("DELETE", "/storage_service/snapshots", **query)
    return ""


def drain(api: Api) -> str:
    """`nodetool drain`: take no more requests, and put on disk what is in memory."""
    api.ask("POST", "/storage_service/drain", _NO_LIMIT)
    return ""


def decommission(api: Api) -> str:
    """`nodetool decommission`: hand all data to the others and leave the ring, to the end of it."""
    api.ask("POST", "/storage_service/decommission", _NO_LIMIT)
    return ""


def cleanup(api: Api, *names: str) -> str:
    """`nodetool cleanup [KEYSPACE [TABLE …]]`; with no name, of all keyspaces that nodes share."""
    keyspace, *tables = names or ("",)
    every = "/storage_service/keyspaces"
    query = {"cf": ",".join(tables)} if tables else {}
    for name in [keyspace] if keyspace else api.get(every, type="non_local_strategy"):
        path = f"/storage_service/keyspace_cleanup/{urllib.parse.quote(name)}"
        api.ask("POST", path, _NO_LIMIT, **query)
    return ""


def refresh(api: Api, *names: str) -> str:
    """`nodetool refresh KEYSPACE TABLE`: take in the files of the table's upload folder."""
    if len(names) != 2:
        raise OSError("refresh: which keyspace and table?")
    keyspace, table = names
    path = f"/storage_service/sstables/{urllib.parse.quote(keyspace)}"
    api.ask("POST", path, _NO_LIMIT, cf=table)
    return ""


def repair(api: Api, *arguments: str) -> str:
    """`nodetool repair [-pr] [-full] KEYSPACE [TABLE …]`, to its end.

    ScyllaDB's are always full. It only starts one when asked to, and tells by its number how it is.
    """
    names = [argument for argument in arguments if not argument.startswith("-")]
    options = {argument for argument in arguments if argument.startswith("-")}
    if unknown := sorted(options - {"-pr", "-full"}):
        raise OSError(f"repair {' '.join(unknown)}: only -pr and -full are supported {NOTE}")
    if not names:
        raise OSError("repair: which keyspace?")
    keyspace, *tables = names
    query = {"primaryRange": _yes("-pr" in options)}
    query |= {"columnFamilies": ",".join(tables)} if tables else {}
    path = f"/storage_service/repair_async/{urllib.parse.quote(keyspace)}"
    number = api.ask("POST", path, **query)
    while (state := api.get(path, id=str(number))) == "RUNNING":
        time.sleep(_AGAIN_S)
    if state != "SUCCESSFUL":
        raise OSError(f"repair {number} of {keyspace} ended as {state}: the node's log says why")
    return f"Repair {number} of {keyspace} finished\nNote: {NOTE}\n"


def _tagged(verb: str, arguments: Sequence[str]) -> tuple[str, list[str]]:
    # Without a tag all snapshots would go; nothing of ours wants that.
    if len(arguments) < 2 or arguments[0] != "-t":
        raise OSError(f"{verb}: -t TAG comes first")
    return arguments[1], list(arguments[2:])


def counters(api: Api) -> str:
    """Latencies of reads and writes counted since the server's start, and its uptime, as JSON.

    A look of `store_window`. In the API a bucket is told by where it begins, and the first also has
    all that is below it.
    """
    looks: dict[str, Any] = {"uptime_ms": api.get("/system/uptime_ms")}
    for name in COUNTED:
        found = api.get(f"/storage_proxy/metrics/{name}/estimated_histogram")
        looks[name] = {"ends_us": [*found["bucket_offsets"][1:], None], "counts": found["buckets"]}
    return json.dumps(looks) + "\n"


VERBS: Mapping[str, Callable[..., str]] = {
    "status": status,
    "proxyhistograms": proxyhistograms,
    "describecluster": describecluster,
    "version": version,
    "info": info,
    "flush": flush,
    "snapshot": snapshot,
    "clearsnapshot": clearsnapshot,
    "netstats": netstats,
    "compactionstats": compactionstats,
    "gossipinfo": gossipinfo,
    "drain": drain,
    "decommission": decommission,
    "cleanup": cleanup,
    "refresh": refresh,
    "repair": repair,
    "counters": counters,
}
"""What there is: what this project calls, and `counters`, which nodetool has not."""


def main(arguments: Sequence[str]) -> int:
    """Print the answer to one verb; 1 and a sentence where there is none."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--api", default=API)
    parser.add_argument("verb")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    if given.verb not in VERBS:
        print(f"{given.verb}: is not had {NOTE}; there is {', '.join(VERBS)}", file=sys.stderr)
        return 1
    try:
        sys.stdout.write(VERBS[given.verb](Api(given.api), *given.arguments))
    except (OSError, LookupError, TypeError, AttributeError) as error:
        print(f"{given.verb}, {NOTE}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
