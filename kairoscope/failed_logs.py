"""KairosDB's logs of the points that it gave up: they are on its host, and go with it."""

from pathlib import Path

from kairoscope import remote
from kairoscope.errors import UserError
from kairoscope.inventory import Host


def fetch(host: Host, folder: Path) -> list[Path]:
    """Copy a KairosDB host's logs that are not empty to `folder`/<host>; the copies.

    Raises:
        UserError: the host does not hand them out. What they say cannot be had elsewhere.
    """
    copies = []
    try:
        # Empty ones are there always.
        listed = remote.run(
            host, ["find", f"{host.home}/log", "-name", "failed*.log", "-size", "+0"], sudo=True
        )
        for name in sorted(listed.split()):
            copy = folder / host.name / Path(name).name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(remote.run(host, ["cat", name], sudo=True, timeout_s=600))
            copies.append(copy)
    except remote.RemoteError as error:
        raise UserError(
            f"The log of points that KairosDB gave up cannot be had: {error}"
        ) from error
    return copies
