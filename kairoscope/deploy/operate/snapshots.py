"""Backups: snapshots of the storage nodes' tables as folders of files, and what says what they are.

    <backup>/manifest.json          of what, when, each node's tokens and files with checksums
    <backup>/schema.cql             the keyspace as CQL, for people; a deploy makes the tables
    <backup>/<node>/<table>/<file>  the files of the tables, as the nodes have them

It is whole once manifest.json is there: that is written last. One that the hosts have sent by
themselves (role backups) has about.json and a node.json for each node in its place; `gather` makes
one of them.
"""

import hashlib
import json
import re
import shlex
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from kairoscope import whole
from kairoscope.errors import UserError
from kairoscope.hosts import ssh
from kairoscope.hosts.inventory import Host
from kairoscope.stacks.kairosdb.servers import nodetool

MANIFEST = "manifest.json"
SCHEMA = "schema.cql"
_FORMAT = 1
_CHUNK = 1 << 20
_LIST_S = 3600
# In each snapshot, and not the tables' data.
_ABOUT = ("manifest.json", "schema.cql")
_FILE = re.compile(r"\w+/[\w+-][\w.+-]*")
_TOKEN = re.compile(r"^Token\s+:\s+(-?\d+)", re.M)

Files = dict[str, dict[str, Any]]
"""By "<table>/<file>": {bytes, sha256}."""


@dataclass(frozen=True)
class Ring:
    """What says which storage node has a replica of which row.

    The name of the datacenter does not: there is one, which has all of them.

    Fields:
        tokens: by node.
        racks: by node; without those of which it is not known.
        copies: the replication factor; None if it is not known.
    """

    tokens: Mapping[str, Sequence[str]]
    racks: Mapping[str, str]
    copies: int | None


@dataclass(frozen=True)
class Placement:
    """Which nodes' files each host takes in, and whether that is one's that had its very rows."""

    sets: dict[str, list[str]]
    same_rows: bool


def ring_of(manifest: Mapping[str, Any]) -> Ring:
    """The ring that a backup is of. Older ones do not tell the racks."""
    nodes = manifest["nodes"]
    return Ring(
        {name: node["tokens"] for name, node in nodes.items()},
        {name: node["rack"] for name, node in nodes.items() if node.get("rack")},
        manifest.get("replication_factor"),
    )


def tokens(host: Host) -> list[str]:
    """A storage node's tokens, sorted. UserError if it does not say."""
    try:
        found = _TOKEN.findall(nodetool.run(host, "info", "--tokens"))
    except nodetool.NodetoolError as error:
        raise UserError(str(error)) from error
    return sorted(found, key=int)


def place(backup: Ring, cluster: Ring) -> Placement:
    """Where a backup's files go.

    Nodes with the same tokens have the same replicas, if all of them agree, there are as many of
    each row, and the same nodes share racks: then each takes in what its twin had. Otherwise, and
    where that is not known, each takes in everything, and removes what is not its own afterwards.

    Args:
        backup: as backed up.
        cluster: as it is.
    """
    nodes = {tuple(sorted(found, key=int)): name for name, found in backup.tokens.items()}
    own = {name: tuple(sorted(found, key=int)) for name, found in cluster.tokens.items()}
    if len(backup.tokens) == len(own) == len(nodes) and all(t in nodes for t in own.values()):
        twins = {name: nodes[found] for name, found in own.items()}
        if _same_replicas(backup, cluster, twins):
            return Placement({name: [twin] for name, twin in twins.items()}, True)
    return Placement({name: sorted(backup.tokens) for name in own}, False)


def _same_replicas(backup: Ring, cluster: Ring, twins: Mapping[str, str]) -> bool:
    """Whether each node has the rows that its twin in the backup had, whose tokens it has."""
    if cluster.copies is None or backup.copies != cluster.copies:
        return False
    if cluster.copies >= len(twins):
        return True  # Every node has every row, in whichever rack.
    racks = {(backup.racks.get(twin), cluster.racks.get(name)) for name, twin in twins.items()}
    was, now = {old for old, _ in racks}, {new for _, new in racks}
    # What they are called is nothing to a replica's place.
    return None not in was | now and len(racks) == len(was) == len(now)


# From a host


def fetch(host: Host, tag: str, into: Path) -> Files:
    """Copy a host's snapshot into a folder that is not there, and say what is in it.

    Raises:
        UserError: a file that arrived is not the one that the host has, or the host cannot be read.
    """
    top = f"{host.vars['keyspaces_dir']}/{host.vars['kairosdb_keyspace']}"
    find = f"cd {shlex.quote(top)} && find . -path './*/snapshots/{tag}/*' -type f -print0"
    try:
        sums = ssh.run(
            host, ["sh", "-c", f"{find} | xargs -0r sha256sum"], sudo=True, timeout_s=_LIST_S
        )
    except ssh.RemoteError as error:
        raise UserError(str(error)) from error
    wanted = {
        name: digest for digest, name in (line.split(maxsplit=1) for line in sums.splitlines())
    }
    if not wanted:
        raise UserError(f"{host.name} has no snapshot {tag}")
    found: Files = {}
    pack = ["sh", "-c", f"{find} | tar -cf - --null --files-from=-"]
    with (
        _running(host, pack, stdin=None, stdout=subprocess.PIPE) as stream,
        tarfile.open(fileobj=stream, mode="r|") as archive,
    ):
        for member in archive:
            content = archive.extractfile(member)
            if not member.isfile() or content is None:
                continue
            name = snapshot_file(member.name, tag)
            size, digest = _copy(content, into / name)
            if wanted.get(member.name) != digest:
                raise UserError(
                    f"{host.name}: {member.name} arrived with another content than it has there"
                )
            found[name] = {"bytes": size, "sha256": digest}
    if missing := len(wanted) - len(found):
        raise UserError(f"{host.name}: {missing} files of the snapshot {tag} did not arrive")
    (into / "files.json").write_text(json.dumps(found))
    return found


def snapshot_file(name: str, tag: str) -> str:
    """Where in a backup a file of a snapshot goes, "<table>/<file>".

    `name` is "./<table>-<id>/snapshots/<tag>/<file>".

    UserError for any other name.
    """
    match = re.fullmatch(rf"\./(\w+)-[0-9a-f]{{32}}/snapshots/{re.escape(tag)}/([\w.+-]+)", name)
    if not match:
        raise UserError(f"A snapshot has no such file: {name}")
    return f"{match[1]}/{match[2]}"


# To a host


def send(host: Host, source: Path, to: str) -> list[str]:
    """Copy a node's files of a backup to a folder on a host; the tables that have any.

    UserError if a file is not what the manifest says, or the host does not take it.
    """
    files = {
        name: about
        for name, about in read(source.parent)["nodes"][source.name]["files"].items()
        if Path(name).name not in _ABOUT
    }
    unpack = ["sh", "-c", f"mkdir -p {shlex.quote(to)} && tar -C {shlex.quote(to)} -xf -"]
    with (
        _running(host, unpack, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as stream,
        tarfile.open(fileobj=stream, mode="w|") as archive,
    ):
        for name, about in files.items():
            path = source / name
            if not path.is_file() or _digest(path) != about["sha256"]:
                raise UserError(f"{path} is not what {MANIFEST} says: the backup is damaged")
            archive.add(path, arcname=name)
    return sorted({name.partition("/")[0] for name in files})


# The backup as a whole


def write(folder: Path, about: dict[str, Any], nodes: Mapping[str, dict[str, Any]]) -> None:
    """Write the manifest of what the nodes' folders hold; `about` and `nodes` go into it."""
    found = {
        name: {**node, "files": json.loads((folder / name / "files.json").read_text())}
        for name, node in nodes.items()
    }
    for name in nodes:
        (folder / name / "files.json").unlink()
    document = {"format": _FORMAT, **about, "nodes": found}
    whole.record(folder / MANIFEST, json.dumps(document, indent=1) + "\n")


def gather(folder: Path) -> None:
    """Write the manifest of a backup that the hosts have sent by themselves; of others nothing.

    UserError if not all nodes have sent their part: about.json names them.
    """
    about = folder / "about.json"
    if (folder / MANIFEST).exists() or not about.exists():
        return
    try:
        facts = json.loads(about.read_text())
        names = facts.pop("nodes")
        parts = {name: folder / name / "node.json" for name in names}
        if missing := [name for name, part in parts.items() if not part.exists()]:
            raise UserError(
                f"{folder} is no whole backup: {', '.join(missing)} did not send all of its part "
                "(on the host: journalctl -u kairoscope-backup). Take the one before"
            )
        nodes = {name: json.loads(part.read_text()) for name, part in parts.items()}
        began = min(node["began"] for node in nodes.values())
        # A host says what the files are called that are read here.
        if odd := [f for node in nodes.values() for f in node["files"] if not _FILE.fullmatch(f)]:
            raise UserError(f"{folder}: a backup has no such file: {odd[0]}")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{folder} is no whole backup: {error!r}") from error
    facts.pop("schema", None)
    made = datetime.fromtimestamp(began, UTC).isoformat()
    document = {"format": _FORMAT, "tag": folder.name, "made": made, **facts, "nodes": nodes}
    whole.record(folder / MANIFEST, json.dumps(document, indent=1) + "\n")


def read(folder: Path) -> dict[str, Any]:
    """A backup's manifest. UserError if it is none, or not whole."""
    try:
        found: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
    except (OSError, ValueError) as error:
        raise UserError(f"{folder} is no whole backup: {MANIFEST}: {error}") from error
    was = found.get("format") if isinstance(found, dict) else None
    if was != _FORMAT:
        raise UserError(f"{folder} is a backup in format {was}, not {_FORMAT}")
    return found


def damage(folder: Path) -> list[str]:
    """What a backup lacks of what its manifest names, and of what its tables need; empty: nothing.

    UserError if it is none.
    """
    manifest = read(folder)
    problems = []
    for node, about in manifest["nodes"].items():
        for name, wanted in about["files"].items():
            path = folder / node / name
            if not path.is_file():
                problems.append(f"{node}/{name} is not there")
            elif path.stat().st_size != wanted["bytes"] or _digest(path) != wanted["sha256"]:
                problems.append(f"{node}/{name} is not what {MANIFEST} says")
        problems += [f"{node}: {problem}" for problem in _parts_missing(folder / node, about)]
    if (copies := manifest["replication_factor"]) > len(manifest["nodes"]):
        problems.append(f"{len(manifest['nodes'])} nodes for {copies} replicas of each row")
    return problems


def _parts_missing(folder: Path, about: Mapping[str, Any]) -> Iterator[str]:
    """Of each table's files: the parts that its TOC.txt names, and the node did not list."""
    for name in about["files"]:
        if name.endswith("-TOC.txt") and (folder / name).is_file():
            stem = name.removesuffix("TOC.txt")
            for part in (folder / name).read_text(errors="replace").split():
                if f"{stem}{part}" not in about["files"]:
                    yield f"{stem}{part} belongs to {name}, and was not sent"


def size(manifest: Mapping[str, Any], nodes: Sequence[str]) -> int:
    """Bytes of some nodes' files."""
    return sum(f["bytes"] for node in nodes for f in manifest["nodes"][node]["files"].values())


@contextmanager
def _running(host: Host, program: list[str], **pipes: Any) -> Iterator[IO[bytes]]:
    """A program on a host with one of its ends here. UserError if it fails."""
    process = subprocess.Popen(
        ssh.command(host, program, sudo=True), stderr=subprocess.PIPE, **pipes
    )
    stream = process.stdin or process.stdout
    assert stream is not None and process.stderr is not None
    try:
        try:
            yield stream
        except (OSError, tarfile.TarError) as error:
            process.kill()
            said = process.stderr.read().decode(errors="replace").strip()
            raise UserError(f"{host.name}: {said or error}") from error
        except BaseException:
            process.kill()
            raise
        stream.close()
        said = process.stderr.read().decode(errors="replace").strip()
        if process.wait() != 0:
            raise UserError(f"{host.name}: {said or f'exit status {process.returncode}'}")
    finally:
        stream.close()
        process.stderr.close()
        process.wait()


def _copy(source: IO[bytes], to: Path) -> tuple[int, str]:
    to.parent.mkdir(parents=True, exist_ok=True)
    digest, count = hashlib.sha256(), 0
    with to.open("xb") as file:
        while chunk := source.read(_CHUNK):
            file.write(chunk)
            digest.update(chunk)
            count += len(chunk)
    return count, digest.hexdigest()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
