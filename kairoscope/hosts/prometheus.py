"""What a target's Prometheus knows, asked on the monitoring host: it listens on loopback alone."""

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kairoscope.hosts import ssh
from kairoscope.hosts.inventory import Host, Inventory

# Until it has asked everybody once, and evaluated every rule, after a start: an interval each.
FIRST_ROUND_S = 45.0

_GET = (
    "import sys, urllib.request as u\n"
    # Whatever proxy the host's environment names is not the way to itself.
    "direct = u.build_opener(u.ProxyHandler({}))\n"
    "try:\n sys.stdout.write(direct.open(sys.argv[1], timeout=20).read().decode())\n"
    "except OSError as error:\n sys.exit(str(error))"
)

LOADER = "loader"
"""The job that answers while a load runs, and not between two."""


@dataclass(frozen=True)
class Known:
    """What Prometheus says.

    Attributes:
        targets: health ("up", or why not) of each server that it asks, by (job, instance).
        rules: health ("ok", or why not) of each rule, by its name.
        alerts: summary of each alert that fires, Watchdog's left out.
    """

    targets: dict[tuple[str, str], str]
    rules: dict[str, str]
    alerts: list[str]

    @property
    def silent(self) -> dict[tuple[str, str], str]:
        """Those of the targets that do not answer, loaders left out: they do while they load."""
        return {
            (job, instance): health
            for (job, instance), health in sorted(self.targets.items())
            if health != "up" and job != LOADER
        }

    @property
    def first_round(self) -> bool:
        """Whether something has not been tried yet."""
        return "unknown" in (*self.targets.values(), *self.rules.values())


def wanted(hosts: Inventory) -> set[tuple[str, str]]:
    """Job and instance of every server that it should ask, beside itself and Alertmanager."""
    return {
        (job["job"], host.name)
        for job in hosts.monitoring[0].vars["scraped"]
        for host in hosts.all
        if job["group"] in ("all", host.role) and job["port"] in host.vars
    }


def known(host: Host, patience_s: float = 0) -> Known:
    """Ask the Prometheus of a monitoring host.

    Args:
        host: that host.
        patience_s: how long to wait until it has tried everything once.

    Raises:
        RemoteError: it does not answer.
    """
    deadline = time.monotonic() + patience_s
    while (found := read(*(_ask(host, what) for what in ("targets", "rules", "alerts")))) and (
        found.first_round and time.monotonic() < deadline
    ):
        time.sleep(1)
    return found


def _ask(host: Host, what: str) -> Any:
    url = f"http://{host.vars['monitoring_address']}:{host.vars['prometheus_web_port']}"
    try:
        answer = ssh.run(host, ["python3", "-c", _GET, f"{url}/api/v1/{what}"])
    except ssh.RemoteError as error:
        if not error.said:  # The host itself: the message says so.
            raise
        raise ssh.RemoteError(f"{url}: {error.said}", error.said) from error
    return json.loads(answer)["data"]


def read(targets: Any, rules: Any, alerts: Any) -> Known:
    """What /api/v1/targets, rules and alerts answer (their `data`)."""
    return Known(
        {
            (target["labels"]["job"], target["labels"]["instance"]): _health(target, "up")
            for target in targets["activeTargets"]
        },
        {rule["name"]: _health(rule, "ok") for group in rules["groups"] for rule in group["rules"]},
        sorted(_summaries(alerts["alerts"])),
    )


def _health(of: dict[str, Any], well: str) -> str:
    return well if of["health"] == well else str(of.get("lastError") or of["health"])


def _summaries(alerts: Iterable[dict[str, Any]]) -> list[str]:
    return [
        f"{alert['labels']['alertname']}: {alert['annotations']['summary']}"
        for alert in alerts
        if alert["state"] == "firing" and alert["labels"]["severity"] != "none"
    ]
