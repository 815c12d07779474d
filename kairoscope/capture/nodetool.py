"""Run nodetool, and read `nodetool proxyhistograms` as its users know it.

The two printed forms: six columns (Read, Write, Range, CAS Read, CAS Write, View Write: Cassandra
3.11 to 5.0 and native ScyllaDB) and three (older ScyllaDB). Columns are found by their header.
"""

import re
import subprocess
from pathlib import Path

PERCENTILES = ("50%", "75%", "95%", "98%", "99%", "Min", "Max")

# Two words at most before "Latency"; the header's columns touch each other in some versions.
_COLUMN = re.compile(r"((?:CAS |View )?(?:Read|Write|Range)) Latency")


class NodetoolError(RuntimeError):
    """nodetool could not be run, or could not reach its node."""


class FormatError(ValueError):
    """Text that is not what `nodetool proxyhistograms` prints."""


def run(tool: Path, *arguments: str, timeout_s: float = 60) -> str:
    """Run one nodetool command and return what it printed. NodetoolError if it fails.

    At the lowest priority: the store is being measured on the same machine.
    """
    try:
        done = subprocess.run(
            ["nice", "-n", "19", str(tool), *arguments],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NodetoolError(f"{tool} {' '.join(arguments)}: {error}") from error
    if done.returncode != 0:
        # A Java stack trace may follow; the message is the first line that is none of it.
        said = [s for s in (done.stderr + done.stdout).splitlines() if s.strip() and s[0] != "\t"]
        raise NodetoolError(f"{tool} {' '.join(arguments)}: {said[0] if said else 'failed'}")
    return done.stdout


def parse_proxyhistograms(text: str) -> dict[str, dict[str, float]]:
    """Latencies in µs by operation ("Read", "CAS Write", …) and row ("50%" … "Max").

    FormatError if the header, a row or a cell is missing, or a row does not fit the header.
    """
    lines = text.splitlines()
    header = next((i for i, line in enumerate(lines) if line.startswith("Percentile")), None)
    if header is None:
        raise FormatError("no line that begins with 'Percentile'")
    columns = _COLUMN.findall(lines[header])
    if not columns:
        raise FormatError(f"no latency column in the header: {lines[header]!r}")
    if "Write" not in columns or len(set(columns)) != len(columns):
        raise FormatError(f"unexpected columns: {columns}")
    rows: dict[str, list[float]] = {}
    for line in lines[header + 1 :]:
        label, *cells = line.split() or [""]
        if label not in PERCENTILES:
            continue
        try:
            values = [float(cell) for cell in cells]
        except ValueError as error:
            raise FormatError(f"not a number in row {label}: {line!r}") from error
        if len(values) != len(columns):
            raise FormatError(f"row {label} has {len(values)} cells, the header {len(columns)}")
        rows[label] = values
    if missing := [p for p in PERCENTILES if p not in rows]:
        raise FormatError(f"rows missing: {', '.join(missing)}")
    return {
        column: {label: rows[label][i] for label in PERCENTILES} for i, column in enumerate(columns)
    }
