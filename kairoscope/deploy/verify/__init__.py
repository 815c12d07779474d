"""`make verify`: is a deployed target what it should be? Asked of the real hosts and servers.

All checks run, whatever the ones before found. `checks` lists them; what each does is said at its
function, in `servers`, `store`, `kairosdb`, `machines` and `access`.
"""

from collections.abc import Callable

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kairoscope import live
from kairoscope.deploy.verify.checks import CHECKS
from kairoscope.deploy.verify.context import Context
from kairoscope.deploy.verify.finding import Finding, Outcome, passed
from kairoscope.errors import UserError
from kairoscope.hosts import deployed, inventory, ssh
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.plan import Plan

_STYLE = {Outcome.OK: "green", Outcome.FAIL: "bold red", Outcome.NOT_CHECKED: "dim"}


def show(target: str, console: Console) -> bool:
    """Check a deployed target and print what was found; True if nothing is off.

    Raises:
        UserError: the target is not deployed.
    """
    hosts = inventory.load(target)
    plan = deployed.deployed_plan(target)
    with live.stage(console, f"looking at target {target}", len(CHECKS), "checks") as shown:
        findings = verify(target, hosts, plan, shown)
    table = Table("check", "where", "found", "wanted", "", title=f"target {target}")
    for one in findings:
        style = _STYLE[one.outcome]
        cells = (escape(text) for text in (one.check, one.where, one.found, one.wanted))
        table.add_row(*cells, f"[{style}]{one.outcome.value}")
    console.print(table)
    failed = sum(one.outcome is Outcome.FAIL for one in findings)
    skipped = sum(one.outcome is Outcome.NOT_CHECKED for one in findings)
    console.print(
        f"{len(findings) - failed - skipped} ok, {failed} FAIL, {skipped} checks not made",
        style="bold red" if failed else None,
    )
    return passed(findings)


def verify(
    target: str, hosts: Inventory, plan: Plan, made: Callable[[int], None] = lambda _: None
) -> list[Finding]:
    """All findings of a target. Hosts that do not answer are one each, and are left alone then.

    `made` is told how many checks were made, of `CHECKS`.
    """
    findings = ssh.on_all(hosts.all, _reach)
    reached = {f.where for f in findings if f.outcome is Outcome.OK}
    context = Context(target, hosts, plan, reached)
    try:
        with context.connected():
            for check in live.counted(CHECKS, made):
                findings += check.findings(context)
    except UserError as error:
        findings.append(Finding.of("way to the servers", "", error.message, "open", False))
    return findings


def _reach(host: Host) -> Finding:
    """Whether a host answers, and lets us do there what checks need."""
    found, well = "yes", True
    try:
        ssh.run(host, ["true"], sudo=True, timeout_s=40)
    except (ssh.RemoteError, UserError) as error:
        found, well = str(error), False
    return Finding.of("reached", host.name, found, "yes", well)
