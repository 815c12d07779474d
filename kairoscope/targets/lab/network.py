"""The lab's network: a namespace of its own with one switch and no way out, and what is wrong with
it on purpose.
"""

import contextlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from kairoscope.errors import UserError
from kairoscope.targets.lab import system

_SWITCH = "switch"
# The switch would take the lowest address among its ports otherwise, and change it under the hosts
# whenever one comes or goes.
_SWITCH_MAC = "02:4b:61:69:72:01"
# What may pass at once before a bandwidth is enforced: a network card hands over up to 64 KiB as
# one packet, and less would let none of those through.
_BURST_MIN_BYTES = 128 * 1024
_BURST_S = 0.1


@dataclass
class Faults:
    """What is wrong with the network now, by the hosts' names."""

    cut: list[str] = field(default_factory=list)
    partitions: list[list[str]] = field(default_factory=list)
    loss_percent: dict[str, float] = field(default_factory=dict)
    bandwidth_kbit: dict[str, int] = field(default_factory=dict)

    def of(self, host: str) -> list[str]:
        """What is wrong for one host, in words."""
        others = [pair[1 - pair.index(host)] for pair in self.partitions if host in pair]
        return [
            *(["cut off"] if host in self.cut else []),
            *(f"no packets to and from {other}" for other in others),
            *([f"loses {self.loss_percent[host]:g} %"] if host in self.loss_percent else []),
            *([f"{self.bandwidth_kbit[host]} kbit/s"] if host in self.bandwidth_kbit else []),
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
        system.call(*self.inside("nft", "-f", "-"), text=faults.rules(port))
        for host in running:
            self._ip("link", "set", port(host), "down" if host in faults.cut else "up")

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
        """Whether this process is in the namespace."""
        return self.exists() and self.path.samefile("/proc/self/ns/net")

    def inside(self, *command: str) -> list[str]:
        """A command line, made to run in the namespace."""
        # Not `ip netns exec`: it hides /sys/fs/cgroup.
        return ["nsenter", f"--net={self.path}", "--", *command]

    def _ip(self, *words: str) -> str:
        return system.call("ip", "-n", self.name, *words)
