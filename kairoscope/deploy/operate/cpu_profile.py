"""`make profile`: where the CPU time of a Java server of this machine goes, while it works.

Threads from /proc, all of their time; methods by Java Flight Recorder, which comes with the JDK and
sees Java code only: not the compiler, the collector, or the kernel.
"""

import contextlib
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil
from rich.console import Console
from rich.progress import track

from kairoscope import paths
from kairoscope.errors import UserError
from kairoscope.hosts import inventory, services
from kairoscope.stacks.kairosdb.captures import threads

RECORDING = "kairoscope"
DEPTH = 64
"""Frames of a stack: as many as the recorder keeps by default."""
METHODS = 40
"""Methods of each list; the recording has all."""

_MAIN = re.compile(r"^sun\.java\.command=(\S+)", re.MULTILINE)
_ROLES = {
    "org.apache.cassandra.service.CassandraDaemon": "storage",
    "org.kairosdb.core.Main": "kairosdb",
}
_THREAD = re.compile(r'^  sampledThread = "(.*)" \(javaThreadId')
_FRAME = re.compile(r"^    (?:\S+\.)?([^\s.]+\.[^\s.(]+)\(.*\) +line: -?\d+$")
# Of the JDK and of what only carries requests: they say how something is called, not what.
_CARRIERS = re.compile(
    r"^    (?:java|javax|jdk|sun|io\.netty|org\.eclipse\.jetty|com\.sun\.jersey|org\.glassfish|"
    r"com\.google\.inject|org\.apache\.cassandra\.concurrent)\."
)


@dataclass(frozen=True)
class Java:
    """A Java process and the tools of its JDK."""

    pid: int
    jcmd: Path
    jfr: Path

    @classmethod
    def of(cls, pid: int) -> "Java":
        """UserError if it is no Java process of ours, or its Java came without the tools."""
        try:
            java = Path(psutil.Process(pid).exe())
        except psutil.Error as error:
            raise UserError(f"process {pid}: {error}. See: make status") from error
        if java.name != "java":
            raise UserError(f"process {pid} is {java}: only Java servers can be looked into")
        tools = cls(pid, java.with_name("jcmd"), java.with_name("jfr"))
        if missing := [tool for tool in (tools.jcmd, tools.jfr) if not tool.exists()]:
            raise UserError(
                f"{missing[0]} is missing: {java} is a run-time without tools. Deploy with a JDK; "
                "on Debian 12 or Ubuntu: apt-get install openjdk-17-jdk-headless"
            )
        return tools

    def ask(self, *command: str) -> str:
        """What one command of jcmd says. UserError if the process does not take it."""
        return _said(self.jcmd, str(self.pid), *command)

    def role(self) -> str:
        """ "storage" or "kairosdb", by its main class. UserError if it is neither."""
        found = _MAIN.search(self.ask("VM.system_properties"))
        main = found.group(1) if found else "nothing that it tells"
        if main not in _ROLES:
            raise UserError(f"process {self.pid} runs {main}, neither Cassandra nor KairosDB")
        return _ROLES[main]


@dataclass(frozen=True)
class Samples:
    """What a flight recording says of Java code; each sample is one look at one running thread.

    Attributes:
        count: number of samples.
        own: samples in which a method ran itself.
        within: samples in which a method, or what it had called, ran; without the JDK's and those
            of libraries that only carry requests.
    """

    count: int
    own: Counter[str]
    within: Counter[str]


def profile(what: str, seconds: int, target: str, console: Console) -> Path:
    """Record a server for some time; print where its CPU time went, and write that beside it.

    Args:
        what: name of a server of the target, such as kairosdb-1, or a process id.
        seconds: how long.
        target: whose servers; only `local`'s run on this machine.
        console: for the progress, and the profile itself.

    Returns:
        The Markdown file; the recording beside it ends in .jfr, for JDK Mission Control.

    Raises:
        UserError: there is no such server, or it cannot be looked into.
    """
    java = Java.of(int(what) if what.isdigit() else _pid(what, target))
    role = java.role()
    folder = paths.results_dir() / "profiles"
    folder.mkdir(parents=True, exist_ok=True)
    recording = folder / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{what}.jfr"
    watch = threads.Threads({java.pid: role})
    with _recorded(java, recording, seconds):
        began_s = time.time()
        watch.look()
        for _ in track(range(seconds), f"recording {what}", console=console, transient=True):
            time.sleep(1)
        watch.look()
        ended_s = time.time()
    if not psutil.pid_exists(java.pid):
        raise UserError(f"{what} ended while it was recorded")
    cpu_s = {group: s for (_, group), s in watch.between(began_s, ended_s).items()}
    found = samples(_said(java.jfr, "print", *_PRINTED, str(recording)).splitlines())
    text = render(f"{what} ({role})", ended_s - began_s, cpu_s, found)
    written = recording.with_suffix(".md")
    written.write_text(text)
    console.print(text, markup=False)
    return written


_PRINTED = ("--events", "jdk.ExecutionSample", "--stack-depth", str(DEPTH))


def samples(lines: Iterable[str]) -> Samples:
    """Count what `jfr print --events jdk.ExecutionSample` prints."""
    count, own, within = 0, Counter[str](), Counter[str]()
    seen: set[str] = set()
    first = False
    for line in lines:
        if _THREAD.match(line):
            count, first, seen = count + 1, True, set()
        elif frame := _FRAME.match(line):
            method = frame.group(1)
            own[method] += first
            first = False
            if method not in seen and not _CARRIERS.match(line):
                seen.add(method)
                within[method] += 1
    return Samples(count, own, within)


def render(what: str, length_s: float, cpu_s: dict[str, float], found: Samples) -> str:
    """The profile in Markdown: threads, then methods with what they call, then by themselves."""
    total_s = sum(cpu_s.values())
    lines = [
        f"# {what}, {length_s:.0f} s",
        "",
        f"{total_s / length_s:.2f} cores; {found.count:,} samples of running Java code.",
        "",
        "| threads | cores | share |",
        "|---|---|---|",
    ]
    for group, used_s in sorted(cpu_s.items(), key=lambda item: -item[1]):
        share = used_s / total_s if total_s else 0
        lines.append(f"| {group} | {used_s / length_s:.3f} | {share:.1%} |")
    for title, methods in (
        ("with what it calls", found.within),
        ("by itself", found.own),
    ):
        lines += ["", f"| method, {title} | samples | share |", "|---|---|---|"]
        for method, number in methods.most_common(METHODS):
            if number:
                lines.append(f"| {method} | {number:,} | {number / found.count:.1%} |")
    return "\n".join(lines) + "\n"


def _pid(name: str, target: str) -> int:
    hosts = inventory.load(target)
    if hosts.managed:
        raise UserError(f"Target {target}: only local's servers can be looked into")
    running = services.of(hosts, target)
    process = running.get(name)
    if process is None:
        names = ", ".join(sorted(host.name for host in [*hosts.kairosdb, *hosts.storage]))
        raise UserError(f"{name}: there is no such server. There are: {names}")
    if not process.pid:
        raise UserError(f"{name} does not run: {process.state}. See: make status")
    return process.pid


@contextlib.contextmanager
def _recorded(java: Java, file: Path, seconds: int) -> Iterator[None]:
    """The recording, while the block runs. It ends by itself if this process is killed."""
    ends = f"duration={seconds + 60}s"
    java.ask("JFR.start", f"name={RECORDING}", "settings=profile", ends, f"filename={file}")
    try:
        yield
    finally:
        if psutil.pid_exists(java.pid):
            java.ask("JFR.stop", f"name={RECORDING}")


def _said(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(
            f"`{' '.join(map(str, command[:3]))}` ended with {done.returncode}: "
            f"{(done.stderr.strip() or done.stdout.strip())[-500:]}"
        )
    return done.stdout
