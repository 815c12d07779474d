"""Checks of the hosts: clocks, disks, and which of their ports are open to whom."""

import subprocess
import time
from collections.abc import Iterable

from kairoscope.deploy.verify import answers, probe
from kairoscope.deploy.verify.check import in_words, of_each
from kairoscope.deploy.verify.context import TROUBLE, Context, on_host
from kairoscope.deploy.verify.finding import Finding
from kairoscope.hosts import ssh
from kairoscope.hosts.inventory import Host
from kairoscope.hosts.loader import best_offset
from kairoscope.run_folder import ClockOffset

_PINGS = 5
_CLOCK = "import sys,time\nfor _ in sys.stdin: print(time.time_ns() // 1000, flush=True)"


def clocks(context: Context, check: str) -> Iterable[Finding]:
    """The hosts' clocks agree: what was written last is decided by them."""
    limit_ms = context.plan.experiment.limits.clock_offset_ms

    def look(host: Host) -> tuple[str, bool]:
        offset = _clock_offset(host)
        return str(offset), not offset.exceeds(limit_ms)

    return of_each(check, context.all, f"within {limit_ms:g} ms of this machine", look)


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
                raise OSError(f"{host.name} does not tell its time")
            pings.append((sent, int(answer), time.time_ns() // 1000))
        ping.stdin.close()
    return best_offset(pings)


def disks(context: Context, check: str) -> Iterable[Finding]:
    """There is room on the disks of the system, of the service's folder and of the data."""

    def look(host: Host) -> tuple[str, bool]:
        found: dict[str, list[int]] = context.fact(host, "disks")
        texts = [f"{folder} {free / total:.0%}" for folder, (free, total) in found.items()]
        return ", ".join(texts), all(answers.disk_well(*disk) for disk in found.values())

    return of_each(check, context.all, f"{answers.DISK_FREE_SHARE:.0%} free", look)


def firewall(context: Context, check: str) -> Iterable[Finding]:
    """The rules that the deploy wrote are those that the kernel has."""

    def look(host: Host) -> tuple[str, bool]:
        well = bool(context.fact(host, "firewall"))
        return ("as deployed" if well else "not as deployed, or none"), well

    return of_each(check, context.all, "as deployed", look)


def ports(context: Context, check: str) -> Iterable[Finding]:
    """From a host of each group, every host's ports: open what must be, closed all else."""
    table = answers.Firewall.read()
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
        except TROUBLE as error:
            return [Finding.of(check, f"from {source.name}", in_words(error), "an answer", False)]
        found = []
        for target in targets:
            reached = {port for port in tried[target.name] if next(hows) == probe.OPEN}
            allowed, listening = table.lets_in(source, target, telnet), _listening(context, target)
            problems = answers.port_problems(reached, allowed, listening)
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
    return answers.listening_ports(found, host.address) - {_ssh_port(host)}


def _ssh_port(host: Host) -> int:
    return int(host.vars.get("firewall_ssh_port", host.vars.get("ansible_port", 22)))


def _ports(ports: set[int]) -> str:
    return ", ".join(map(str, sorted(ports))) or "none"
