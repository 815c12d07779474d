"""What a folder takes of the disk of a host, while a server writes and removes files in it."""

from kairoscope.hosts import ssh
from kairoscope.hosts.inventory import Host

# What `du` could not read it says between its other lines, and ends with 1 for a single file that
# is gone; what it read it has added up. In English, whatever the host speaks.
_LOOK = 'LC_ALL=C du -s -B1 "$0" 2>&1 || true'
_GONE = "No such file or directory"


def below(host: Host, folder: str) -> int:
    """Bytes allocated below a folder, which may be another user's; files that vanish meanwhile
    count nothing. RemoteError if it cannot be read, or is not there."""
    said = ssh.run(host, ["sh", "-c", _LOOK, folder], sudo=True).splitlines()
    *complaints, total = [line for line in said if not line.endswith(_GONE)] or [
        f"{folder}: {_GONE}"
    ]
    size, _, of = total.partition("\t")
    if complaints or of != folder:
        why = (complaints or [total])[0]
        raise ssh.RemoteError(f"{host.name}: {why}", why)
    return int(size)
