"""Whether a target that is watched is: a run goes on without, and says that the dashboards' curves
will have a hole."""

from rich.console import Console

from kairoscope.hosts import prometheus, ssh
from kairoscope.run.state import State

EVENT = "monitoring"


def look(state: State, console: Console) -> None:
    """Ask each Prometheus of the target whom it hears. What is wrong is an event and a line.

    Never raises: nothing of a run is measured by it.
    """
    for host in state.inventory.monitoring:
        try:
            found = prometheus.known(host).silent
        except (ssh.RemoteError, ValueError, LookupError) as error:
            said = f"Prometheus on {host.name} does not answer: {error}"
        else:
            # Whom it has not asked yet may answer.
            silent = [
                f"{job} of {name}" for (job, name), health in found.items() if health != "unknown"
            ]
            if not silent:
                continue
            said = f"Prometheus on {host.name} does not hear {', '.join(silent)}"
        state.note(EVENT, said)
        console.print(f"{said}; the run goes on", markup=False, soft_wrap=True)
