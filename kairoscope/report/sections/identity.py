"""Which run this is."""

from kairoscope.report import units
from kairoscope.report.data import Json, RunData, items, known, part
from kairoscope.report.table import Table
from kairoscope.report.units import NONE


def _machine(machine: Json) -> str:
    if "error" in machine:
        return f"{NONE} ({machine['error']})"
    return (
        f"{units.count(machine.get('cpus'))} CPUs ({units.plain(machine.get('cpu_model'))}), "
        f"{units.byte_size(machine.get('memory_bytes'))} memory, {units.plain(machine.get('os'))}, "
        f"kernel {units.plain(machine.get('kernel'))}"
    )


def table(run: RunData) -> Table:
    """Which run this is: times, commit, machine, versions."""
    manifest = run.manifest
    git, machine = part(manifest, "git"), part(manifest, "machine")
    dirty = git.get("dirty")
    state = " (with uncommitted changes)" if dirty else " (clean)" if dirty is False else ""
    rows = [
        ("Run", str(manifest.get("run") or run.folder)),
        (
            "Experiment",
            units.plain(known(manifest.get("experiment"), run.plan.get("experiment_file"))),
        ),
        ("Target", units.plain(known(manifest.get("target"), run.plan.get("target")))),
        ("Command", units.plain(manifest.get("command"))),
        ("Started", units.clock(manifest.get("started"))),
        ("Ended", units.clock(manifest.get("ended"))),
        ("Git commit", f"{git.get('commit') or NONE}{state}"),
        ("Machine", _machine(machine)),
    ]
    for host in items(manifest, "hosts"):
        rows.append((f"Host {host.get('name')}", _machine(host)))
    rows += [
        (f"Version: {name.replace('_', ' ')}", units.plain(value))
        for name, value in part(manifest, "versions").items()
    ]
    return Table(("", ""), tuple(rows))
