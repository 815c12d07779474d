"""What a run, `verify` and the roles want of nodetool, by ScyllaDB's REST API, in nodetool's form.

ScyllaDB has a nodetool of its own from 6.0 on (tools/scylla-nodetool.cc); up to 5.x it is a Java
program that needs JMX. The REST API is in all of them. Paths and their answers as at 5.2.19
(api/api-doc/*.json), met on a node of that release on 2026-11-24; the printed forms are those of
nodetool, with a line that says where they come from.

A program too, with nothing but Python's own library: run on the storage node, where alone the API
is reached (it has no authentication): `python3 - --api URL VERB [ARGUMENT …]`. It is the nodetool
of a node whose release has none and that is no package.
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

# Flush and snapshot wait for the disk; what moves data, for as long as that takes.
_TIMEOUT_S = 600
_MOVES_DATA_S = 86_400
_REPAIR_LOOK_S = 1.0

_PERCENTILES = (50, 75, 95, 98, 99)


class Api:
    """The REST API of one node. OSError if it does not answer, or not with 2xx and JSON."""

    def __init__(self, url: str = API, limit_s: float = _TIMEOUT_S) -> None:
        """`url`: without a path; `limit_s`: how long one request may take."""
        self.url = url.rstrip("/")
        self.limit_s = limit_s

    @property
    def patient(self) -> "Api":
        """The same for what moves data, which takes as long as it takes."""
        return Api(self.url, _MOVES_DATA_S)

    def ask(self, method: str, path: str, **query: str) -> Any:
        """The answer to one request; None where it is empty."""
        text = f"?{urllib.parse.urlencode(query)}" if query else ""
        request = urllib.request.Request(f"{self.url}{path}{text}", method=method)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=self.limit_s) as answer:  # noqa: S310
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
    """`nodetool proxyhistograms`: of the samples that the server keeps, the last 1,024 a shard.

    Nothing decays in them: those of an idle node stay.
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
    # One that is up and has no tokens yet is about to join, before it is called so; one that is
    # down and has none has left.
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
    """`nodetool info --tokens`: the node's tokens, and nothing else of it."""
    if options != ("--tokens",):
        raise OSError(f"info {' '.join(options)}: only info --tokens is had {NOTE}")
    found = api.get("/storage_service/tokens")
    return "".join(f"{'Token':<23}: {token}\n" for token in found) + f"Note: {NOTE}\n"


def netstats(api: Api) -> str:
    """`nodetool netstats`: the node's mode, and nothing else of it."""
    return f"Mode: {api.get('/storage_service/operation_mode')}\nNote: {NOTE}\n"


def drain(api: Api) -> str:
    """`nodetool drain`: take no more requests, and have all on disk."""
    api.patient.ask("POST", "/storage_service/drain")
    return ""


def decommission(api: Api) -> str:
    """`nodetool decommission`: hand all data to the others and leave the ring."""
    api.patient.ask("POST", "/storage_service/decommission")
    return ""


def cleanup(api: Api, *names: str) -> str:
    """`nodetool cleanup [KEYSPACE]`: remove what is other nodes', of all keyspaces, or of one."""
    for name in names or api.get("/storage_service/keyspaces", type="non_local_strategy"):
        path = f"/storage_service/keyspace_cleanup/{urllib.parse.quote(name)}"
        api.patient.ask("POST", path)
    return ""


def repair(api: Api, *arguments: str) -> str:
    """`nodetool repair [-pr] [-full] KEYSPACE`: ends with it. It is always full here."""
    options = [word for word in arguments if word.startswith("-")]
    keyspaces = [word for word in arguments if not word.startswith("-")]
    if set(options) - {"-pr", "-full"} or len(keyspaces) != 1:
        raise OSError(f"repair {' '.join(arguments)}: only repair [-pr] [-full] KEYSPACE is had")
    path = f"/storage_service/repair_async/{urllib.parse.quote(keyspaces[0])}"
    number = api.ask("POST", path, **({"primaryRange": "true"} if "-pr" in options else {}))
    while (state := api.get(path, id=str(number))) == "RUNNING":
        time.sleep(_REPAIR_LOOK_S)
    if state != "SUCCESSFUL":
        raise OSError(f"repair {number} of {keyspaces[0]}: {state}; the server's log says why")
    return f"Repair {number} of {keyspaces[0]}: {state}\nNote: {NOTE}\n"


def refresh(api: Api, keyspace: str, table: str) -> str:
    """`nodetool refresh KEYSPACE TABLE`: take in the files in the table's upload folder."""
    path = f"/storage_service/sstables/{urllib.parse.quote(keyspace)}"
    api.patient.ask("POST", path, cf=table)
    return ""


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


def _tagged(verb: str, arguments: Sequence[str]) -> tuple[str, list[str]]:
    # Without a tag all snapshots would go; nothing of ours wants that.
    if len(arguments) < 2 or arguments[0] != "-t":  # noqa: PLR2004
        raise OSError(f"{verb}: -t TAG comes first")
    return arguments[1], list(arguments[2:])


def counters(api: Api) -> str:
    """Latencies of reads and writes counted since the server's start, as JSON; see `window`."""
    found = {
        name: api.get(f"/storage_proxy/metrics/{name}/estimated_histogram") for name in COUNTED
    }
    return json.dumps(found) + "\n"


def window(
    before: Mapping[str, Sequence[int]], after: Mapping[str, Sequence[int]]
) -> dict[str, Any]:
    """What was counted between two looks at one histogram: counts by bucket, and percentiles.

    Each bucket begins at its offset (µs) and ends at the next; the first also has all below it, and
    the last, without an end, all above. A percentile is the end of its bucket: what so many were
    faster than. In the last bucket it is unknown (null).

    ValueError if the two are not of one server's life: its counts only grow while it runs.
    """
    offsets, counts = list(after["bucket_offsets"]), list(after["buckets"])
    if list(before["bucket_offsets"]) != offsets or len(before["buckets"]) != len(counts):
        raise ValueError("the buckets are others than before")
    grown = [new - old for old, new in zip(before["buckets"], counts, strict=True)]
    if any(count < 0 for count in grown):
        raise ValueError("counts became less: the server was started again meanwhile")
    total = sum(grown)
    document: dict[str, Any] = {"count": total, "bucket_offsets_us": offsets, "buckets": grown}
    for p in (*_PERCENTILES, 99.9):
        document[f"p{p:g}_us".replace(".", "_", 1)] = _end_of_bucket(grown, offsets, p / 100)
    return document


def _end_of_bucket(counts: Sequence[int], offsets: Sequence[int], share: float) -> int | None:
    total, seen = sum(counts), 0
    if not total:
        return None
    for place, count in enumerate(counts):
        seen += count
        if count and seen >= share * total:
            return offsets[place + 1] if place + 1 < len(offsets) else None
    return None


VERBS: Mapping[str, Callable[..., str]] = {
    "status": status,
    "proxyhistograms": proxyhistograms,
    "describecluster": describecluster,
    "version": version,
    "info": info,
    "flush": flush,
    "snapshot": snapshot,
    "clearsnapshot": clearsnapshot,
    "counters": counters,
    "netstats": netstats,
    "drain": drain,
    "decommission": decommission,
    "cleanup": cleanup,
    "repair": repair,
    "refresh": refresh,
}
"""What there is: what a run, `verify` and the roles call, and nothing else."""


def main(arguments: Sequence[str]) -> int:
    """Print the answer to one verb; 1 and a sentence where there is none."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--api", default=API)
    parser.add_argument("verb", choices=VERBS)
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    try:
        sys.stdout.write(VERBS[given.verb](Api(given.api), *given.arguments))
    except (OSError, LookupError, TypeError, AttributeError) as error:
        print(f"{given.verb}, {NOTE}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
