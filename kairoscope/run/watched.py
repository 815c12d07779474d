"""Whether a target that is watched is: a run goes on without, and says that the dashboards' curves
will have a hole."""

from rich.console import Console

from kairoscope.hosts import prometheus, ssh
from kairoscope.run.current import CurrentRun

EVENT = "monitoring"


def look(current: CurrentRun, console: Console, *, loaded: bool) -> None:
    """Ask each Prometheus of the target whom it hears. What is wrong is an event and a line.

    Never raises: nothing of a run is measured by it.

    Args:
        current: the run.
        console: where the lines go.
        loaded: whether the load has ended. One that has asked nobody at its beginning may have been
            deployed just now; at its end it has had the time.
    """
    for host in current.inventory.monitoring:
        try:
            wrong = _wrong(prometheus.known(host), loaded=loaded)
        except (ssh.RemoteError, ValueError, LookupError) as error:
            wrong = [f"does not answer: {error}"]
        for what in wrong:
            said = f"Prometheus on {host.name} {what}"
            current.note(EVENT, said)
            console.print(f"{said}; the run goes on", markup=False, soft_wrap=True)


def _wrong(found: prometheus.Known, *, loaded: bool) -> list[str]:
    """What is wrong with one that answers. What it has not tried yet may be well."""
    wrong = []
    # So it is between two of its crashes, as with a disk that has no room for it to start.
    if loaded and set(found.targets.values()) <= {"unknown"}:
        wrong.append("has asked nobody yet: it was started a moment ago, perhaps again and again")
    if silent := [f"{job} of {name}" for (job, name), h in found.silent.items() if h != "unknown"]:
        wrong.append(f"does not hear {', '.join(silent)}")
    # So it says of a full disk too: it hears everybody then, and keeps nothing.
    if broken := [health for health in found.rules.values() if health not in ("ok", "unknown")]:
        wrong.append(f"fails at {len(broken)} of its rules: {broken[0]}")
    return wrong
