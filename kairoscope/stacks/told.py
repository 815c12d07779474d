"""What a system of one server tells of itself, and what it does not; see `single`."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Told:
    """What a system tells of itself, for plan and verdict.

    Attributes:
        acknowledgement: what its acknowledgement means, a sentence.
        not_judged: parts of the verdict that it has no figure for, and why.
        flows: counters of its own that are points/s, by what they are of, for a picture.
        losses: counters of its own that grow where it throws points away, and what that is.
        whole_seconds: whether it keeps no finer time.
        bytes_per_point: on its disk, for the size of a run.
        memory_mib: of the server, for the check of this machine.
        more: sentences to know before starting.
    """

    acknowledgement: str
    bytes_per_point: float
    memory_mib: int
    not_judged: dict[str, str] = field(default_factory=dict)
    losses: dict[str, str] = field(default_factory=dict)
    flows: dict[str, str] = field(default_factory=dict)
    whole_seconds: bool = False
    more: tuple[str, ...] = ()
