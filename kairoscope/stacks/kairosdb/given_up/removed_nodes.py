"""Nodes that were taken away from a target: what a load that had used them needs of them.

A load keeps the nodes it began with. A KairosDB node that was drained for good and removed
meanwhile has nothing in its queue any more, and what the store had refused of it is kept here. A
storage node that left has given its data to the others, and nothing more is to be captured of it.
"""

from pathlib import Path

from kairoscope import paths
from kairoscope.hosts.inventory import Host
from kairoscope.stacks.kairosdb.given_up import failed_logs


def _folder(target: str) -> Path:
    return paths.target_dir(target) / "removed"


def _note(target: str, host: Host) -> Path:
    return _folder(target) / host.name / "removed"


def keep(target: str, host: Host) -> list[Path]:
    """Bring here what goes with a drained host, and note that it is gone; the logs brought.

    Raises:
        UserError: the host does not hand them out; it is not noted then.
    """
    copies = failed_logs.fetch(host, _folder(target))
    gone(target, host)
    return copies


def gone(target: str, host: Host) -> None:
    """Note that a host is gone."""
    note = _note(target, host)
    note.parent.mkdir(parents=True, exist_ok=True)
    note.touch()


def since(target: str, host: Host, start: float) -> bool:
    """Whether a node was taken away after `start` (epoch s); one of its name may have come back."""
    try:
        return _note(target, host).stat().st_mtime >= start
    except FileNotFoundError:
        return False


def given_up(target: str, host: Host) -> list[Path]:
    """The logs of points that the store had refused, of a node that was taken away."""
    return failed_logs.kept(_note(target, host).parent)
