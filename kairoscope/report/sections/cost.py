"""What each process used, and what a data point costs."""

from typing import Any

from kairoscope.report import units
from kairoscope.report.data import RunData, part, samples
from kairoscope.report.table import Table
from kairoscope.report.units import NONE, number


def processes(run: RunData) -> Table:
    """CPU, memory and disk of every process over the measured window."""
    roles = {str(r.get("name")): str(r.get("role", "?")) for r in run.processes}
    cores, memory = part(run.measurements, "cpu_cores"), part(run.measurements, "rss_max_bytes")
    disk = samples(run.processes, "disk_bytes")
    seen = samples(run.processes, "rss_bytes")
    shown = {n for n in (*roles, *cores, *memory) if roles.get(n) not in ("machine", "host")}
    names = sorted(shown, key=lambda n: (roles.get(n, "~"), n))
    rows = []
    for name in names:
        peak = number(memory.get(name))
        if peak is None:
            peak = max((v for _, v in seen.get(name, []) if v is not None), default=None)
        mean = number(cores.get(name))
        used = [v for _, v in disk.get(name, []) if v is not None]
        rows.append(
            (
                name,
                roles.get(name, "?"),
                NONE if mean is None else units.significant(mean),
                units.byte_size(peak),
                units.byte_size(used[-1] if used else None),
            )
        )
    head = ("process", "role", "mean cores", "highest memory (RSS)", "disk at the end")
    return Table(head, tuple(rows), numeric=(2, 3, 4))


def costs(run: RunData) -> Table:
    """What one data point costs: CPU by role, bytes on disk; and how busy the machine was."""
    if not run.measurements:
        return Table((), ())
    per_point = part(run.measurements, "cpu_us_per_point")
    size = part(run.measurements, "bytes_per_point")
    labels = {**run.server_roles, "storage": "all storage nodes together", "loader": "loaders"}
    rows = [
        (f"CPU per point, {labels[role]}", _micros(per_point.get(role)))
        for role in (*run.server_roles, "loader")
    ]
    rows += [
        (
            "Bytes per point on disk, all replicas",
            units.byte_size(size.get("on_disk_all_replicas")),
        ),
        ("Bytes per point on disk, one replica", units.byte_size(size.get("per_replica"))),
        (
            "Machine (or hosts on average) busy, share of all cores",
            units.percent(run.measurements.get("machine_cpu_busy_fraction")),
        ),
    ]
    return Table(("", "measured"), tuple(rows), numeric=(1,))


def _micros(value: Any) -> str:
    n = number(value)
    return NONE if n is None else f"{units.significant(n)} µs"
