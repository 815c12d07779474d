"""What a check is: a function from the context to its findings, which goes on after trouble.

Each asks the real servers and hosts; what it gathered is read in `answers`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kairoscope.deploy.verify.context import TROUBLE, Context
from kairoscope.deploy.verify.finding import Finding
from kairoscope.errors import UserError
from kairoscope.hosts import ssh
from kairoscope.hosts.inventory import Host


@dataclass(frozen=True)
class Check:
    """A check: its name in the table, what it does, and what a target must be for it."""

    name: str
    run: Callable[[Context, str], Iterable[Finding]]
    managed: bool = False
    secured: bool = False
    watched: bool = False
    sharded: bool = False

    def not_for(self, context: Context) -> str:
        """Why it does not apply to a target; "" if it does."""
        if self.managed and not context.hosts.managed:
            return "all on this machine's loopback: no hosts of their own"
        if self.secured and context.client.access is None:
            return "the target is not secured"
        if self.watched and not context.hosts.monitoring:
            return "no monitoring host: MONITORING=true"
        if self.sharded and context.hosts.storage[0].vars["storage_engine"] != "scylla":
            return "Cassandra has no shards"
        return ""

    def findings(self, context: Context) -> list[Finding]:
        """What it finds. Trouble in getting there is a finding too."""
        if why := self.not_for(context):
            return [Finding.skipped(self.name, why)]
        try:
            found = list(self.run(context, self.name))
            # Nothing was found where nobody could be asked.
            return found or [Finding.of(self.name, "", "no host reached", "an answer", False)]
        except TROUBLE as error:
            return [Finding.of(self.name, "", in_words(error), "an answer", False)]
        except Exception as error:  # a bug of ours must not hide what the other checks find
            return [Finding.of(self.name, "", f"error in Kairoscope: {error!r}", "none", False)]


def in_words(error: Exception) -> str:
    """What a trouble says."""
    return error.message if isinstance(error, UserError) else str(error)


def of_each(
    check: str, hosts: Sequence[Host], wanted: str, look: Callable[[Host], tuple[str, bool]]
) -> list[Finding]:
    """A finding for each host, looked at side by side: `look` gives what was found, and if well."""

    def one(host: Host) -> Finding:
        try:
            found, well = look(host)
        except TROUBLE as error:
            found, well = in_words(error), False
        return Finding.of(check, host.name, found, wanted, well)

    return ssh.on_all(hosts, one)
