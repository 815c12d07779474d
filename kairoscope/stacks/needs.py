"""What a stack's servers need of the machine that they are to run on.

A stack says it, of a plan; `kairoscope.deploy.preflight` adds up and compares with the machine.
"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Listener:
    """An address and TCP port that the deployment will listen on, and for what."""

    address: str
    port: int
    purpose: str


@dataclass(frozen=True)
class Memory:
    """What all servers together take of a machine's memory.

    Attributes:
        mib: of all of them, in MiB.
        how: what that is the sum of, in words.
        lower: what of an experiment makes it less, in words; "" where nothing does.
    """

    mib: int
    how: str
    lower: str = ""


@dataclass(frozen=True)
class Slots:
    """Slots of the kernel's asynchronous I/O: a machine has fs.aio-max-nr of them for everybody.

    Attributes:
        of: whose servers take them, in words.
        servers: how many of them the plan has.
        each: slots of one server.
        how: what that comes of, in words.
        is_one: whether a command line is that of such a server, which has its slots then.
    """

    of: str
    servers: int
    each: int
    how: str
    is_one: Callable[[list[str]], bool]


@dataclass(frozen=True)
class Cpu:
    """The least CPU that servers take, for a refusal: of stacks that were measured for it.

    Attributes:
        us_per_point: for a point, in µs, with all that takes CPU on a machine that all share.
        measured: what that was measured of, in words.
        servers: how many there are, whatever the load is.
        named: which, in words.
        per_core: so many of them a core can start and keep.
        fewer: what of an experiment makes them fewer, in words.
    """

    us_per_point: float
    measured: str
    servers: int
    named: str
    per_core: int
    fewer: str


@dataclass(frozen=True)
class Needs:
    """What the servers of a plan need where they all share a machine.

    Attributes:
        memory: what they take.
        kept_free_bytes: of the disk, beside what the run writes: they leave it free, and stop
            where it is not.
        slots: of asynchronous I/O; None where they do without.
        cpu: None where it was not measured: nothing is refused for it then.
    """

    memory: Memory
    kept_free_bytes: int = 0
    slots: Slots | None = None
    cpu: Cpu | None = None
