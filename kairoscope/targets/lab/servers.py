"""What can happen on purpose to servers of lab hosts alone, by ssh and their service manager."""

from collections.abc import Sequence
from pathlib import Path

from kairoscope.hosts import host_trouble, secret_files, ssh
from kairoscope.hosts.inventory import Host

_LISTENS_S = 120
"""Until a server that was restarted takes connections; three JVMs that start side by side on two
cores need most of a minute."""

_CLOCK = "/run/lab-clock"

# A drop-in below /run is gone after a reboot, whatever became of who made it. libfaketime reads the
# file about once a second, as each time that a JVM looks at the clock would be dear; and it leaves
# alone what counts only how time passes, as the kernel does where a clock is set. Without the last
# but one variable a JVM's waits end at once (0.9.10).
_WRONG_CLOCK = f"""
lib=$(ls /usr/lib/*/faketime/libfaketime.so.1 2>/dev/null) || {{
  echo "it was made without libfaketime, by an earlier version. First: make lab-down" >&2
  exit 1
}}
folder=/run/systemd/system/$unit.service.d
mkdir -p "$folder"
cat > "$folder/lab-clock.conf" <<END
[Service]
Environment=LD_PRELOAD=$lib FAKETIME_TIMESTAMP_FILE={_CLOCK} FAKETIME_CACHE_DURATION=1
Environment=FAKETIME_DONT_FAKE_MONOTONIC=1 FAKETIME_FORCE_MONOTONIC_FIX=0 NO_FAKE_STAT=1
END
cat > {_CLOCK}.new
mv {_CLOCK}.new {_CLOCK}
systemctl daemon-reload
"""
_RIGHT_CLOCK = f"""
rm -f "/run/systemd/system/$unit.service.d/lab-clock.conf"
systemctl daemon-reload
if [ -e {_CLOCK} ]; then
  echo +0 > {_CLOCK}.new
  mv {_CLOCK}.new {_CLOCK}
  sleep 2 # until it is read
fi
"""
# A commit log that met a full disk may have a write in it that was cut off, and Cassandra does not
# start with such a one unless it is told to leave out what it cannot read.
_AFTER_FULL_DISK = """
folder=/run/systemd/system/$unit.service.d
mkdir -p "$folder"
cat > "$folder/lab-full-disk.conf" <<END
[Service]
Environment=JDK_JAVA_OPTIONS=-Dcassandra.commitlog.ignorereplayerrors=true
END
systemctl daemon-reload
systemctl kill --signal=KILL "$unit.service" || true
systemctl restart "$unit.service"
rm "$folder/lab-full-disk.conf"
systemctl daemon-reload
"""
_RESTART = 'systemctl restart "$unit.service"'
_LISTEN = f"""
for try in $(seq {_LISTENS_S * 5}); do
  if ss -Hltn "sport = :$port" | grep -q .; then exit 0; fi
  sleep 0.2
done
echo "$unit takes no connections {_LISTENS_S} s after it was restarted" >&2
exit 1
"""
# Owner and mode stay, and whoever reads it meanwhile reads a whole one.
_PUT = """
cp -p "$1" "$1.new"
cat > "$1.new"
mv "$1.new" "$1"
"""


def wrong_clock(hosts: Sequence[Host], by_s: float) -> None:
    """Restart the hosts' servers with a clock that is ahead by so much, or behind if negative.

    With a restart, as libfaketime has to be there when a server starts, between it and the clock.
    Returns once they take connections. UserError if one does not.
    """
    _on_servers(hosts, _WRONG_CLOCK + _RESTART + _LISTEN, f"{by_s:+.3f}\n")


def right_clock(hosts: Sequence[Host]) -> None:
    """Let the clocks of servers step to this machine's while they run. UserError if one cannot."""
    _on_servers(hosts, _RIGHT_CLOCK)


def after_full_disk(hosts: Sequence[Host]) -> None:
    """End storage nodes at once and start them. UserError if one takes no connections then."""
    _on_servers(hosts, _AFTER_FULL_DISK + _LISTEN)


def certificate(hosts: Sequence[Host], *, expired: bool) -> None:
    """Give the hosts certificates of their CA that have expired, or theirs, and restart servers.

    With a restart, as then no connection of before is left. With theirs it returns once they take
    connections, UserError if one does not; with another KairosDB does not even start.
    """

    def put(host: Host) -> None:
        where = Path(host.vars["secrets_dir"])
        for name, content in secret_files.certificate(where, host.name, expired=expired).items():
            place = f"{host.vars['pki_host_dir']}/{name}"
            ssh.run(host, ["sh", "-euc", _PUT, "sh", place], sudo=True, stdin=content)

    host_trouble.on_each(hosts, put)
    _on_servers(hosts, _RESTART if expired else _RESTART + _LISTEN)


def _on_servers(hosts: Sequence[Host], script: str, stdin: str = "") -> None:
    host_trouble.on_servers(hosts, script, stdin, timeout_s=2 * _LISTENS_S)
