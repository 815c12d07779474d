"""What can happen on purpose to hosts with systemd, by ssh: servers are killed and frozen, hosts
reboot and are cut off.

Nothing is left so for good: a timer of the host itself undoes it after a while, should whoever
began it never come back. A host that reboots has forgotten all of it.
"""

import contextlib
import re
import shlex
import time
from collections.abc import Callable, Sequence

from kairoscope.errors import UserError
from kairoscope.hosts import ssh
from kairoscope.hosts.inventory import Host

LEVERS = ("kill", "freeze", "restart", "partition")
"""What `begin` can do."""

_SERVER_S = 300
"""Until a server's service manager says that it was started; ScyllaDB's waits until it serves."""
_BOOT_S = 900.0
"""Until a host is back; of the largest instances of AWS a reboot takes minutes."""
_POLL_S = 2.0
_FORGOTTEN_S = 120
"""After the end of a fault that nobody has undone."""

# In each: $unit, of systemd. A drop-in below /run is gone after a reboot.
_START = """
rm -f "/run/systemd/system/$unit.service.d/kairoscope-fault.conf"
systemctl daemon-reload
systemctl reset-failed "$unit.service" 2>/dev/null || true
systemctl start "$unit.service"
"""
_RUNS = """
systemctl is-active --quiet "$unit.service" || { echo "$unit does not run" >&2; exit 1; }
"""
# Its service manager would start it again at once.
_KILL = """
folder=/run/systemd/system/$unit.service.d
mkdir -p "$folder"
printf '[Service]\\nRestart=no\\n' > "$folder/kairoscope-fault.conf"
systemctl daemon-reload
systemctl kill --signal=KILL "$unit.service"
"""
_FREEZE = 'systemctl kill --signal=STOP "$unit.service"\n'
_THAW = 'systemctl kill --signal=CONT "$unit.service" 2>/dev/null || true\n'
_LET_IN = "table inet kairoscope_fault\ndelete table inet kairoscope_fault\n"
_HEAL = f"nft --file - <<END\n{_LET_IN}END\n"
# The way back in a file: systemd has an idea of its own of what is in a command line.
_UNDONE_BY_ITSELF = """
undo=kairoscope-undo-$unit
systemctl stop "$undo.timer" 2>/dev/null || true
printf '%s\\n' "unit=$unit" {back} 'rm "$0"' > "/run/$undo"
systemd-run --quiet --collect --unit="$undo" --on-active={after_s} \\
  --timer-property=AccuracySec=1s sh -eu "/run/$undo"
"""
_NO_NEED = """
systemctl stop "kairoscope-undo-$unit.timer" 2>/dev/null || true
rm -f "/run/kairoscope-undo-$unit"
"""
_REBOOT = """
systemd-run --quiet --collect --on-active=1 --timer-property=AccuracySec=100ms systemctl reboot
"""
# Of a container the kernel, and with it the first, stays.
_BOOT = "cat /proc/sys/kernel/random/boot_id; cut -d ' ' -f 22 /proc/1/stat"

_NETWORK, _LOAD = "network", "load"
"""In place of a unit, of what is not a server."""


def begin(action: str, hosts: Sequence[Host], everyone: Sequence[Host], for_s: float) -> None:
    """Let an action of LEVERS happen to hosts, on all side by side.

    Of a loader host to the agent and what it started; of others kill and freeze are of their
    servers, partition is between them and `everyone` else. Returns once it has happened; of restart
    once the hosts are back.

    Args:
        for_s: how long it will last, in s; well after that it is undone by the host itself.

    Raises:
        UserError: it could not be done to each of them.
    """
    if action == "restart":
        _reboot(hosts)
        return
    if action == "partition":
        others = [host for host in everyone if host.name not in {each.name for each in hosts}]
        by_itself = _undone_by_itself(_HEAL, for_s)
        _once_on_each(
            hosts,
            lambda host: f"{by_itself}nft --file - <<END\n{_cut(host, others)}END\n",
            _NETWORK,
        )
        return
    act, back = {"kill": (_KILL, _START), "freeze": (_FREEZE, _THAW)}[action]
    on_servers(_servers(hosts), _RUNS + _undone_by_itself(back, for_s) + act)
    if action == "kill":
        _once_on_each(_loaders(hosts), lambda host: _to_its_load(host, "KILL"), _LOAD)
        return
    _once_on_each(
        _loaders(hosts),
        lambda host: _undone_by_itself(_thaw_load(host), for_s) + _to_its_load(host, "STOP"),
        _LOAD,
    )


def undo(action: str, hosts: Sequence[Host]) -> None:
    """Have it as before `begin`; nothing where that was undone, or never begun.

    Raises:
        UserError: it could not be undone on each of them.
    """
    if action == "partition":
        _once_on_each(hosts, lambda _: _HEAL + _NO_NEED, _NETWORK)
    elif action == "kill":
        on_servers(_servers(hosts), _START + _NO_NEED, timeout_s=_SERVER_S)
    elif action == "freeze":
        on_servers(_servers(hosts), _THAW + _NO_NEED)
        _once_on_each(_loaders(hosts), lambda host: _thaw_load(host) + _NO_NEED, _LOAD)


def on_servers(
    hosts: Sequence[Host],
    script: str,
    stdin: str = "",
    timeout_s: float = 60,
) -> None:
    """Run a script of sh as root on all hosts, side by side; of several servers for each, in order.

    In it are $unit of a server, and $port of the host.

    UserError, with what it said, if it fails somewhere.
    """

    def on(host: Host) -> None:
        port = str(host.vars.get("http_port") or host.vars.get("native_transport_port"))
        for unit in host.units.values():
            arguments = ["sh", "-euc", f"unit=$1 port={port}\n{script}", "sh", unit]
            ssh.run(host, arguments, sudo=True, stdin=stdin, timeout_s=timeout_s)

    on_each(hosts, on)


def on_each(hosts: Sequence[Host], act: Callable[[Host], None]) -> None:
    """Do something to all hosts, side by side. UserError with all that went wrong."""

    def on(host: Host) -> str:
        try:
            act(host)
        except ssh.RemoteError as error:
            return f"{host.name}: {error.said or error}"
        return ""

    if problems := [problem for problem in ssh.on_all(hosts, on) if problem]:
        raise UserError("; ".join(problems))


def _once_on_each(hosts: Sequence[Host], script: Callable[[Host], str], unit: str) -> None:
    """A script as `on_servers` runs it, of what concerns a host, once on each."""

    def on(host: Host) -> None:
        ssh.run(host, ["sh", "-euc", f"unit=$1\n{script(host)}", "sh", unit], sudo=True)

    on_each(hosts, on)


def _servers(hosts: Sequence[Host]) -> list[Host]:
    return [host for host in hosts if host.role != "loader"]


def _loaders(hosts: Sequence[Host]) -> list[Host]:
    return [host for host in hosts if host.role == "loader"]


def _to_its_load(host: Host, signal: str) -> str:
    """A command that signals agent, workers and reader of a load, found by the host's folder in
    their arguments; it fails if there are none."""
    # The first letter in brackets, or it would find the shell that looks for it.
    pattern = shlex.quote(f"[l]oaders[.].* {re.escape(str(host.home))}/")
    return (
        f"{{ pkill --signal {signal} --full {pattern} "
        '|| { echo "its load is not under way" >&2; false; }; }'
    )


def _thaw_load(host: Host) -> str:
    return f"{_to_its_load(host, 'CONT')} 2>/dev/null || true\n"  # It may have ended meanwhile.


def _undone_by_itself(back: str, for_s: float) -> str:
    """A script that has another undo a fault of `for_s` s, should nobody do it."""
    after_s = round(for_s) + _FORGOTTEN_S
    return _UNDONE_BY_ITSELF.format(back=shlex.quote(back), after_s=after_s)


def _cut(host: Host, others: Sequence[Host]) -> str:
    """Rules by which no packet passes between a host and others; but SSH, from one of which it may
    be done and will be undone."""
    port = ssh.variable(host, "ansible_port", "22")
    addresses = sorted({other.address for other in others} - {host.address})
    lines = {"input": [f"tcp dport {port} accept"], "output": [f"tcp sport {port} accept"]}
    for family, found in (
        ("ip", [address for address in addresses if ":" not in address]),
        ("ip6", [address for address in addresses if ":" in address]),
    ):
        if found:
            lines["input"].append(f"{family} saddr {{ {', '.join(found)} }} drop")
            lines["output"].append(f"{family} daddr {{ {', '.join(found)} }} drop")
    # Before anybody else's rules.
    text = _LET_IN + "table inet kairoscope_fault {\n"
    for hook, rules in lines.items():
        text += f"chain {hook} {{\ntype filter hook {hook} priority -300\n"
        text += "".join(f"{rule}\n" for rule in rules) + "}\n"
    return text + "}\n"


def _reboot(hosts: Sequence[Host]) -> None:
    """Reboot in good order, and wait until all are back."""
    if here := [host.name for host in hosts if ssh.is_local(host)]:
        raise UserError(f"{', '.join(here)} is this machine, which would end the run")
    before: dict[str, str] = {}

    def begin_on(host: Host) -> None:
        before[host.name] = ssh.run(host, ["sh", "-c", _BOOT])
        ssh.run(host, ["sh", "-euc", _REBOOT], sudo=True)

    on_each(hosts, begin_on)
    end = time.monotonic() + _BOOT_S

    def await_on(host: Host) -> None:
        while time.monotonic() < end:
            time.sleep(_POLL_S)
            with contextlib.suppress(ssh.RemoteError):
                if ssh.run(host, ["sh", "-c", _BOOT], timeout_s=30) != before[host.name]:
                    return
        raise ssh.RemoteError(f"it is not back {_BOOT_S:.0f} s after it was told to reboot")

    on_each(hosts, await_on)
