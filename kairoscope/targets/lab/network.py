"""The lab's network: a namespace of its own with one switch and no way out, and what is wrong with
it on purpose.
"""

import contextlib
import ctypes
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from kairoscope.errors import UserError
from kairoscope.targets.lab import delay, system

_SWITCH = "switch"
# The switch would take the lowest address among its ports otherwise, and change it under the hosts
# whenever one comes or goes.
_SWITCH_MAC = "02:4b:61:69:72:01"
# What may pass at once before a bandwidth is enforced: a network card hands over up to 64 KiB as
# one packet, and less would let none of those through.
_BURST_MIN_BYTES = 128 * 1024
_BURST_S = 0.1

_CLONE_NEWNET = 0x40000000  # sched.h: a network namespace
_HERE = "/proc/thread-self/ns/net"


@dataclass
class Faults:
    """What is wrong with the network now, by the hosts' names."""

    cut: list[str] = field(default_factory=list)
    partitions: list[list[str]] = field(default_factory=list)
    loss_percent: dict[str, float] = field(default_factory=dict)
    bandwidth_kbit: dict[str, int] = field(default_factory=dict)
    delay_s: dict[str, float] = field(default_factory=dict)

    def of(self, host: str) -> list[str]:
        """What is wrong for one host, in words."""
        others = [pair[1 - pair.index(host)] for pair in self.partitions if host in pair]
        return [
            *(["cut off"] if host in self.cut else []),
            *(f"no packets to and from {other}" for other in others),
            *([f"loses {self.loss_percent[host]:g} %"] if host in self.loss_percent else []),
            *([f"{self.bandwidth_kbit[host]} kbit/s"] if host in self.bandwidth_kbit else []),
            *([f"{self.delay_s[host] * 1000:g} ms late"] if host in self.delay_s else []),
        ]

    def isolate(self, hosts: Sequence[str], everyone: Sequence[str]) -> None:
        """Part these hosts from all others, and not from each other."""
        for host in hosts:
            for other in everyone:
                pair = sorted((host, other))
                if other not in hosts and pair not in self.partitions:
                    self.partitions.append(pair)

    def forget(self, host: str) -> None:
        """Drop all that concerns a host."""
        self.cut = [name for name in self.cut if name != host]
        self.partitions = [pair for pair in self.partitions if host not in pair]
        self.loss_percent.pop(host, None)
        self.bandwidth_kbit.pop(host, None)
        self.delay_s.pop(host, None)

    def rules(self, port: Callable[[str], str]) -> str:
        """The faults as a ruleset of nftables, which takes the place of the one before.

        The rules name the switch's ports, so they outlive a host's reboot, and hold for whatever
        passes a port, ARP and the control machine's connections too.

        Args:
            port: a host's port of the switch.
        """
        chains: dict[str, list[str]] = {"prerouting": [], "forward": [], "postrouting": []}
        for hook, side in (("prerouting", "iifname"), ("postrouting", "oifname")):
            lines = chains[hook]
            lines += [f'{side} "{port(host)}" drop' for host in self.cut]
            for host, percent in self.loss_percent.items():
                drop = f"numgen random mod 10000 < {round(percent * 100)} drop"
                lines.append(f'{side} "{port(host)}" {drop}')
            for host, kbit in self.bandwidth_kbit.items():
                rate = kbit * 1000 // 8
                burst = max(_BURST_MIN_BYTES, round(rate * _BURST_S))
                limit = f"limit rate over {rate} bytes/second burst {burst} bytes"
                lines.append(f'{side} "{port(host)}" {limit} drop')
        for one, other in self.partitions:
            for here, there in ((one, other), (other, one)):
                chains["forward"].append(f'iifname "{port(here)}" oifname "{port(there)}" drop')
        text = "table bridge faults\ndelete table bridge faults\ntable bridge faults {\n"
        for hook, lines in chains.items():
            text += f"  chain {hook} {{\n    type filter hook {hook} priority 0\n"
            text += "".join(f"    {line}\n" for line in lines) + "  }\n"
        return text + "}\n"

    def write(self, path: Path) -> None:
        """Keep them in a file."""
        system.write(path, json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def read(cls, path: Path) -> "Faults":
        """Those in a file; none if there is no file."""
        return cls(**json.loads(path.read_text())) if path.exists() else cls()


class Network:
    """A network namespace with a switch in it."""

    switch = _SWITCH

    def __init__(self, name: str) -> None:
        """Name it; nothing is made."""
        self.name = name
        self.path = system.NAMESPACES / name
        self._came_from: int | None = None

    def exists(self) -> bool:
        """Whether the namespace is there."""
        return system.mounted(self.path.resolve())

    def make(self, gateway: str) -> None:
        """Make what is not there: the namespace, its loopback, the switch with an address.

        Args:
            gateway: the control machine's address among the hosts, such as 10.77.0.1.
        """
        if not self.exists():
            self.path.unlink(missing_ok=True)
            system.call("ip", "netns", "add", self.name)
        if f" {_SWITCH}:" not in self._ip("-o", "link"):
            self._ip("link", "add", _SWITCH, "address", _SWITCH_MAC, "type", "bridge")
        if f" {gateway}/24 " not in self._ip("-o", "address"):
            self._ip("address", "add", f"{gateway}/24", "dev", _SWITCH)
        for link in ("lo", _SWITCH):
            self._ip("link", "set", link, "up")

    def apply(self, faults: Faults, port: Callable[[str], str], running: list[str]) -> None:
        """Make the network as faulty as that; hosts that run have their cable pulled or not."""

        def at_switch(host: str) -> str:
            return _late(port(host)) if host in faults.delay_s else port(host)

        system.call(*self.inside("nft", "-f", "-"), text=faults.rules(at_switch))
        for host in running:
            self._delay(port(host), faults.delay_s.get(host))
            self._ip("link", "set", at_switch(host), "down" if host in faults.cut else "up")

    def _delay(self, port: str, by_s: float | None) -> None:
        """Put what hands frames on later between a port and the switch, or take it away."""
        late, far = _late(port), f"ve{port[2:]}"
        # A host that has rebooted has a port that is made anew, in the switch.
        direct = f" master {_SWITCH} " in self._ip("-o", "link", "show", port)
        if by_s is not None and direct:
            self.remove_link(late)
            self._ip("link", "add", late, "type", "veth", "peer", "name", far)
            self._ip("link", "set", late, "master", _SWITCH)
            for link in (late, far):
                self._ip("link", "set", link, "up")
            program = (sys.executable, "-I", delay.__file__)
            system.call(*self.inside(*program, port, far, str(by_s)))
        elif by_s is None and not direct:
            self.remove_link(late)  # which ends the program
            self._ip("link", "set", port, "master", _SWITCH, "arp", "on")

    def remove_port(self, port: str) -> None:
        """Take a host's port away, whatever is at its other end."""
        for link in (port, _late(port)):
            self.remove_link(link)

    def remove_link(self, link: str) -> None:
        """Take a port away, whatever is at its other end; nothing if there is none."""
        if self.has_link(link):
            # The kernel may have done it meanwhile.
            with contextlib.suppress(UserError):
                self._ip("link", "delete", link)

    def has_link(self, link: str) -> bool:
        """Whether there is such a port."""
        return f" {link}@" in self._ip("-o", "link")

    def remove(self) -> None:
        """End what runs in the namespace, and remove it with all in it."""
        if self.exists():
            system.end_namespace(self.path.stat().st_ino)
            system.call("ip", "netns", "delete", self.name)
        self.path.unlink(missing_ok=True)

    def is_ours(self) -> bool:
        """Whether this thread is in the namespace."""
        return self.exists() and self.path.samefile(_HERE)

    def join(self) -> None:
        """Be in the namespace: this thread, and what it starts from now on.

        A socket that it has already stays where it was made.
        """
        came_from = os.open(_HERE, os.O_RDONLY)
        with self.path.open("rb") as file:
            _go(file.fileno())
        self._came_from = came_from

    @contextlib.contextmanager
    def left(self) -> Iterator[None]:
        """Within the block, be where this thread was before it joined; if it was always in the
        namespace, there is nowhere to go."""
        if self._came_from is None:
            yield
            return
        _go(self._came_from)
        try:
            yield
        finally:
            with self.path.open("rb") as file:
                _go(file.fileno())

    def inside(self, *command: str) -> list[str]:
        """A command line, made to run in the namespace."""
        # Not `ip netns exec`: it hides /sys/fs/cgroup.
        return ["nsenter", f"--net={self.path}", "--", *command]

    def _ip(self, *words: str) -> str:
        return system.call("ip", "-n", self.name, *words)


def _go(namespace: int) -> None:
    """Have this thread in a namespace, of which there is an open file."""
    # Python has it (os.setns) from 3.12 on.
    if ctypes.CDLL(None, use_errno=True).setns(namespace, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "setns")


def _late(port: str) -> str:
    """What is in the switch in place of a port whose frames are late."""
    return f"vd{port[2:]}"
