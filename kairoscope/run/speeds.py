"""How fast the machines of a run are, before its load and after it; see `speed_probe`."""

import math
from pathlib import Path

from kairoscope.hosts import ssh
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.run import speed_probe

_PROBE = Path(speed_probe.__file__)


def of_machines(inventory: Inventory) -> dict[str, float | None]:
    """CPU seconds for `speed_probe.WORK`, of this machine or of each managed host by its name.

    Nothing here is reason enough not to load: of a host that cannot be asked it is None.
    """
    if not inventory.managed:
        return {"machine": speed_probe.seconds()}
    hosts = inventory.all
    return dict(zip((host.name for host in hosts), ssh.on_all(hosts, _of), strict=True))


def _of(host: Host) -> float | None:
    try:
        said = float(ssh.run(host, ["python3", "-c", _PROBE.read_text()]))
    except (ssh.RemoteError, ValueError):
        return None
    return said if math.isfinite(said) and said > 0 else None
