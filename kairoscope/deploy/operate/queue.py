"""What waits in KairosDB's queues on their hosts: look at it, bring it here, throw it away.

For an operator whose queue is full, or has points that no store takes. The format of the queue's
files is known in Java only (kairosdb-conf/plugin), by a tool in KairosDB's bundle that runs on the
host; dead letters are lines of JSON (`dead_letters`).
"""

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from rich.console import Console

from kairoscope.errors import UserError
from kairoscope.hosts import inventory, operation, services, ssh
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.plan.amounts import in_bytes
from kairoscope.run_folder import stamp
from kairoscope.stacks.kairosdb.given_up import dead_letters
from kairoscope.stacks.kairosdb.servers import client

TOOL = "io.kairoscope.kairosdb.queue.QueueTool"
JAVA_OPTIONS = (
    # Beside a KairosDB that runs: it reads a record at a time.
    *("-Xmx256m", "-XX:+UseSerialGC", "-Duser.timezone=UTC"),
    # As in kairosdb-conf/templates/java.args.j2: the queue's files are mapped.
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
)
TOP = 20
"""Metrics and reasons that are named."""
# A queue of some hundred GB is read in minutes.
_TOOL_S = 3600
_STOP_S = 300
_HEALTHY_S = 180
# Of supervisord and of systemd: what somebody has stopped, and stays so.
_STOPPED = ("STOPPED", "not defined", "inactive/dead")


@dataclass(frozen=True)
class Contents:
    """What is in one node's queue. Times in ms since 1970; `trouble` is why it is not known."""

    waiting: int = 0
    since_checkpoint: int = 0
    oldest_taken_at: int | None = None
    bytes: int = 0
    unreadable: int = 0
    metrics: dict[str, int] = field(default_factory=dict)
    dead: Counter[str] = field(default_factory=Counter)
    """Dead letters by reason."""
    torn: int = 0
    """Lines among them that cannot be read."""
    trouble: str = ""

    @property
    def whole(self) -> bool:
        """Whether all that was written there can be read."""
        return not (self.trouble or self.unreadable or self.torn)


@dataclass(frozen=True)
class Choice:
    """What to drop: all that waits, what waits of a metric, or the dead letters."""

    what: Literal["all", "metric", "dead"]
    metric: str = ""

    @classmethod
    def of(cls, *, metric: str | None, dead: bool, everything: bool, yes: bool) -> "Choice":
        """From the options of the command. UserError unless it is clear what is meant."""
        if (metric is not None) + dead + everything != 1:
            raise UserError(
                "Drop what? One of --metric NAME (what waits of one metric), --dead (what the "
                "store refused for good), --all --yes (everything that waits)"
            )
        if everything and not yes:
            raise UserError(
                "--all drops every point that waits, though each was acknowledged. If that is what "
                "you want: --all --yes"
            )
        if metric is not None:
            if not metric:
                raise UserError("--metric needs a name")
            return cls("metric", metric)
        return cls("dead" if dead else "all")

    @property
    def of_tool(self) -> list[str]:
        return ["--metric", self.metric] if self.what == "metric" else ["--all"]

    def __str__(self) -> str:
        """As the end of "points …"."""
        if self.what == "metric":
            return f"of {self.metric}"
        return "that were refused" if self.what == "dead" else "that waited"


def folder(host: Host) -> str:
    """The queue's folder on a host, as kairosdb.conf.j2 has it."""
    return f"{host.home}/queue"


def command(host: Host, verb: str, *options: str) -> list[str]:
    """The command line of the tool on a host.

    It runs as KairosDB's own user, so that what it writes stays KairosDB's.
    """
    jars = f"{host.vars['kairosdb_bundle_dir']}/lib/*"
    java = [str(host.vars["java"]), *JAVA_OPTIONS, "-cp", jars, TOOL, verb, folder(host), *options]
    return ["runuser", "-u", str(host.vars["run_as"]), "--", *java] if _has_user(host) else java


def _has_user(host: Host) -> bool:
    return "run_as" in host.vars


def nodes(hosts: Inventory, name: str | None) -> list[Host]:
    """The KairosDB node of that name, or all. UserError if there is none."""
    found = [host for host in hosts.kairosdb if name in (None, host.name)]
    if not found:
        known = ", ".join(host.name for host in hosts.kairosdb)
        raise UserError(f"--node {name}: there is no such KairosDB node. There are: {known}")
    return found


def inspect(target: str, name: str | None, console: Console) -> bool:
    """Print what waits on one node or all; True if every folder is whole."""
    hosts = nodes(inventory.load(target), name)
    whole = True
    for host, found in zip(hosts, ssh.on_all(hosts, look), strict=True):
        whole &= found.whole
        for line in describe(host.name, found, time.time()):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    return whole


def look(host: Host) -> Contents:
    """What is in a node's queue; what cannot be told is in its `trouble`."""
    try:
        said = _answer(host, "inspect")
        dead: Counter[str] = Counter()
        torn = 0
        with _dead(host) as lines:
            for letter in dead_letters.read(lines):
                if letter is None:
                    torn += 1
                else:
                    dead[letter.reason] += 1
        oldest = said.get("oldest_taken_at")
        return Contents(
            waiting=int(said["waiting"]),
            since_checkpoint=int(said["since_checkpoint"]),
            oldest_taken_at=None if oldest is None else int(oldest),
            bytes=int(said["bytes"]),
            unreadable=int(said["unreadable"]),
            metrics={str(name): int(count) for name, count in said["metrics"].items()},
            dead=dead,
            torn=torn,
        )
    except UserError as error:
        return Contents(trouble=error.message.removeprefix(f"{host.name}: "))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return Contents(trouble=f"what {TOOL} says is not understood: {error!r}")


def describe(name: str, found: Contents, now: float) -> Iterator[str]:
    """What is in a node's queue, in lines."""
    if found.trouble:
        yield f"{name}: not known: {found.trouble}"
        return
    age = ""
    if found.waiting and found.oldest_taken_at is not None:
        age = f", the oldest for {max(0.0, now - found.oldest_taken_at / 1000):,.1f} s"
    yield (
        f"{name}: {found.waiting:,} points wait{age}; {found.since_checkpoint:,} since the "
        f"checkpoint; {in_bytes(found.bytes)} of files"
    )
    yield from _most(Counter(found.metrics), "metrics")
    if found.unreadable:
        yield f"  NOT WHOLE: {found.unreadable:,} records cannot be read"
    if found.dead or found.torn:
        yield f"  {found.dead.total():,} dead letters, which the store refused for good:"
        yield from _most(found.dead, "reasons")
    if found.torn:
        yield f"  NOT WHOLE: {found.torn:,} lines of the dead letters cannot be read"
    if found.whole:
        yield "  whole: everything in the folder can be read"


def _most(counts: Counter[str], what: str) -> Iterator[str]:
    for name, count in counts.most_common(TOP):
        yield f"  {count:12,}  {name}"
    others = dict(counts.most_common()[TOP:])
    if others:
        yield f"  {sum(others.values()):12,}  of {len(others):,} other {what}"


def export(target: str, name: str | None, to: Path, *, dead: bool, console: Console) -> None:
    """Write what waits on one node or all, or their dead letters, to a new file."""
    hosts = nodes(inventory.load(target), name)
    count = torn = 0
    with _new(to) as file:
        for host in hosts:
            written, unreadable = _export(host, file, Choice("dead" if dead else "all"))
            count, torn = count + written, torn + unreadable
    what = "dead letters" if dead else "waiting points"
    console.print(f"{count:,} {what} of {', '.join(host.name for host in hosts)}: {to}")
    if torn:
        console.print(f"{torn:,} lines of the dead letters cannot be read, and are not in it")


def _export(host: Host, file: IO[str], choice: Choice) -> tuple[int, int]:
    """Write points of a host in the form of KairosDB's REST interface, a line each.

    Returns how many, and how many dead letters could not be read.
    """
    written = torn = 0
    if choice.what == "dead":
        with _dead(host) as lines:
            for letter in dead_letters.read(lines):
                if letter is None:
                    torn += 1
                    continue
                file.write(json.dumps(letter.rest(), ensure_ascii=False) + "\n")
                written += 1
        return written, torn
    options = choice.of_tool if choice.what == "metric" else []
    with _reading(host, command(host, "export", *options)) as lines:
        for line in lines:
            if line.startswith("{"):  # What Java's own options say goes to stdout, too.
                file.write(line.rstrip("\n") + "\n")
                written += 1
    return written, torn


def drop(target: str, name: str | None, choice: Choice, to: Path | None, console: Console) -> None:
    """Throw points of one node away, once they are in a file here.

    KairosDB stands still meanwhile: it has the files open. It runs again afterwards, whatever
    happened, unless somebody had stopped it.
    """
    here = inventory.load(target)
    if name is None and len(here.kairosdb) > 1:
        known = ", ".join(host.name for host in here.kairosdb)
        raise UserError(f"drop is for one node: --node, one of {known}")
    host = nodes(here, name)[0]
    file = (to or Path(f"dropped-{host.name}-{stamp(time.time())}.jsonl")).absolute()
    # Before anything is stopped for it.
    _refuse_existing(file)
    with (
        operation.alone(target),
        operation.without_load(target, "its ledger would not balance"),
    ):
        # The way out of a removal whose KairosDB cannot store what it has any more.
        operation.check_none_unfinished(target, over=("remove-kairosdb",))
        with _standing_still(here, host, target, console):
            _drop(host, choice, file, console)


def _drop(host: Host, choice: Choice, file: Path, console: Console) -> None:
    with _new(file) as out:
        written, torn = _export(host, out, choice)
        if choice.what == "dead":
            _keep_letters(host, file.with_suffix(".letters.jsonl"))
    console.print(f"{written:,} points {choice}, in KairosDB's REST form: {file}")
    if choice.what == "dead":
        _run(host, ["rm", "-f", f"{folder(host)}/{dead_letters.FILE}"])
        more = f", and {torn:,} lines that cannot be read" if torn else ""
        console.print(
            f"{host.name}: dropped {written:,} points {choice}{more}; as they were, with their "
            f"reasons: {file.with_suffix('.letters.jsonl')}"
        )
        return
    dropped = int(_answer(host, "drop", *choice.of_tool)["dropped"])
    console.print(f"{host.name}: dropped {dropped:,} points {choice}")
    if dropped != written:
        console.print(
            f"{host.name}: {written:,} points were brought here and {dropped:,} dropped, which "
            "should be the same. See: kairoscope queue inspect",
            style="bold yellow",
        )


def _keep_letters(host: Host, file: Path) -> None:
    with _new(file) as out, _dead(host) as lines:
        out.writelines(lines)


@contextmanager
def _standing_still(here: Inventory, host: Host, target: str, console: Console) -> Iterator[None]:
    """The host's KairosDB does not run in the block; it does afterwards unless it was stopped."""
    process = services.of(here, target).get(host.name)
    if process is None or process.state in _STOPPED:
        yield
        return
    console.print(f"{host.name}: stopping KairosDB …")
    try:
        _run(host, _service(host, "stop"), timeout_s=_STOP_S)
        yield
    finally:
        console.print(f"{host.name}: starting KairosDB …")
        _run(host, _service(host, "start"), timeout_s=_STOP_S)
    with client.connect(here, [host]) as talk:
        talk.wait_until_healthy(host, _HEALTHY_S)
    console.print(f"{host.name}: KairosDB is healthy")


def _service(host: Host, verb: str) -> list[str]:
    """How a host's KairosDB is stopped or started."""
    if host.vars.get("managed"):
        return ["systemctl", verb, f"{host.vars['unit']}.service"]
    return [*map(str, host.vars["supervisorctl"]), verb, host.name]


def _answer(host: Host, verb: str, *options: str) -> dict[str, Any]:
    """The JSON object that the tool prints. UserError with its sentence if it cannot."""
    said = _run(host, command(host, verb, *options), timeout_s=_TOOL_S)
    lines = [line for line in said.splitlines() if line.startswith("{")]
    try:
        answer: dict[str, Any] = json.loads(lines[-1])
    except (IndexError, ValueError) as error:
        raise UserError(f"{host.name}: {TOOL} {verb} printed no answer: {said[:200]!r}") from error
    return answer


def _run(host: Host, program: list[str], timeout_s: float = 60) -> str:
    try:
        return ssh.run(host, program, sudo=True, timeout_s=timeout_s)
    except ssh.RemoteError as error:
        raise UserError(f"{host.name}: {error.said}" if error.said else str(error)) from error


@contextmanager
def _reading(host: Host, program: list[str]) -> Iterator[IO[str]]:
    try:
        with ssh.reading(host, program, sudo=True) as lines:
            yield lines
    except ssh.RemoteError as error:
        raise UserError(f"{host.name}: {error.said}" if error.said else str(error)) from error


def _dead(host: Host) -> AbstractContextManager[IO[str]]:
    """The lines of a host's dead letters, none if there is no file."""
    path = f"{folder(host)}/{dead_letters.FILE}"
    return _reading(host, ["sh", "-c", 'test ! -e "$1" || cat "$1"', "sh", path])


def _refuse_existing(path: Path) -> None:
    if path.exists():
        raise UserError(f"{path} is there already.")


@contextmanager
def _new(path: Path) -> Iterator[IO[str]]:
    """A file that is not there, and is there only if the block came to its end."""
    _refuse_existing(path)
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("w", encoding="utf-8") as file:
            yield file
        partial.rename(path)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error}") from error
    finally:
        partial.unlink(missing_ok=True)
