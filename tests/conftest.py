"""What holds for all layers: which tests are in the long layer, what may run side by side, and what
is said at the end."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest

# No test fails for being slow: machines are shared, and layers run side by side.
hypothesis.settings.register_profile("kairoscope", deadline=None)
hypothesis.settings.load_profile("kairoscope")

# A shell starts what it puts in the background with SIGINT ignored, and that is handed on to every
# process below: tests that press Ctrl-C would wait in vain.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The long layer. A test that has one of these marks is left out of `make test`, which has 20
# minutes on two cores; `make test-long` runs them all, `make test-long ONLY=<mark>` those of one.
LONG = {
    "day_two": "nodes replaced, added and removed, backups and rotations in the lab, under loads",
    "faults": "servers killed, frozen, starved of disk and fed with poison, on this machine",
    "secured": "TLS and passwords on this machine, and their rotation",
    "scylla": "the ScyllaDB role on a stand-in in the lab, and a real server (SCYLLA=)",
    "lab": "the lab's own hosts, faults and firewall, and what a deploy there refuses and survives",
    "aws": "deployments with Terraform's real provider, to a stand-in for AWS and hosts of a lab",
    "alerts": "each alert fired by its fault in the lab, and none by a load (CLEAN_MINUTES=60)",
    "panels": "dashboards drawn by Grafana's own components (npm, Chromium), other systems' asked",
}

# Files of the layers that have a deployment to themselves, or none; the others of their folder
# share one, so that they stay in one process. The longest first, so that all do not wait for one
# at the end. The unit tests come last, each file by itself.
_GROUPS = (
    "lab",
    "cluster",
    "cluster/test_loads",
    "cloud",
    "lab/test_alerts_fired",
    "lab/test_lab_aws",
    "lab/test_lab_own_hosts",
    "lab/test_lab_scylla",
    "cluster/test_attacks",
    "cluster/test_killed_together",
    "cluster/test_kills",
    "cluster/test_fault_runs",
    "cluster/test_secured",
    "cluster/test_own_scylla",
    "cluster/test_systems",
    "lab/test_lab_systems",
    "lab/test_lab_firewall",
    "lab/test_lab_hosts",
    "unit/test_plugin_java",
)
# Those whose store is the server that SCYLLA= names, if it names one.
_ON_SCYLLA = (
    "lab",
    "cluster/test_attacks",
    "cluster/test_kills",
    "cluster/test_fault_runs",
    "cluster/test_killed_together",
)
# What tests measured beside their outcome, by the property that they record it as.
_TABLES = {
    "effect": "verb | under load of the time | acknowledged | lost | p99 | points",
    "killed": "queue | what happened | acknowledged | not found | given up",
    "killed together": "engine | queue | crashes | acknowledged | "
    "not read back | repaired | not found | lost | on neither node in the end",
    "attacked": "what was done | acknowledged | lost | given up | p99",
    "alert": "alerts | what was done | all fired after | all over after",
    "not fired": "alert | why not",
}
_LEFT_OUT = pytest.StashKey[Counter[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--long`: which part of the collected tests is run; all of them without it."""
    parser.addoption(
        "--long",
        choices=["no", "all", *LONG],
        help="leave the long layer out (no), or run nothing but it (all), or one mark of it",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marks known, for `--strict-markers` and `pytest --markers`."""
    for name, what in LONG.items():
        config.addinivalue_line("markers", f"{name}: long layer: {what}")
    config.stash[_LEFT_OUT] = Counter()


def pytest_report_header(config: pytest.Config) -> str | None:
    """Which ScyllaDB the long layer meets: none of its results means the same on the other."""
    if config.getoption("--long") not in ("all", "scylla"):
        return None
    return f"ScyllaDB: {os.environ.get('SCYLLA') or 'a stand-in; SCYLLA= names a server'}"


def _marks(item: pytest.Item) -> list[str]:
    """The marks of the long layer that a test has, the nearest first; none in the default layer."""
    return [mark.name for mark in item.iter_markers() if mark.name in LONG]


def _group(item: pytest.Item) -> str:
    file = f"{item.path.parent.name}/{item.path.stem}"
    return file if file in _GROUPS or item.path.parent.name == "unit" else item.path.parent.name


def _on_scylla(item: pytest.Item, which: str) -> bool:
    """Whether a test of another kind is one of the kind `scylla` as well: where a server was given,
    what these deploy stores on it."""
    return which == "scylla" and bool(os.environ.get("SCYLLA")) and _group(item) in _ON_SCYLLA


def _place(item: pytest.Item) -> int:
    group = _group(item)
    return _GROUPS.index(group) if group in _GROUPS else len(_GROUPS)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Leave out what `--long` says; what shares a deployment stays together."""
    which = config.getoption("--long")
    left_out = []
    for item in items:
        marks = _marks(item)
        if (
            (which == "no" and marks)
            or (which == "all" and not marks)
            or (which in LONG and which not in marks and not _on_scylla(item, which))
        ):
            left_out.append(item)
        item.add_marker(pytest.mark.xdist_group(_group(item).replace("/", "-")))
    if left_out:
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]
        config.hook.pytest_deselected(items=left_out)
        config.stash[_LEFT_OUT].update((_marks(item) or ["default"])[0] for item in left_out)
    # Before xdist hands out what is left: it goes by the order.
    yield
    items.sort(key=_place)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """A release of pytest and one of pytest-xdist that do not understand each other leave the
    groups out without a word; tests of one deployment would run beside each other then."""
    if getattr(session.config.option, "loadgroup", False):
        apart = [item.nodeid for item in session.items if "@" not in item.nodeid.rpartition("]")[2]]
        if apart:
            raise pytest.UsageError(f"{apart[0]} has no group: see tests/conftest.py")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Only the processes of xdist collect; the one that prints has to be told."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = dict(session.config.stash[_LEFT_OUT])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Each of xdist's processes has collected the same."""
    if said := getattr(node, "workeroutput", {}).get("left_out"):
        left_out: Counter[str] = Counter(said)
        node.config.stash[_LEFT_OUT] = left_out


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """What tests measured (rows of results/published/), and what was not run."""
    _tell_measured(terminalreporter)
    _tell_not_run(terminalreporter, config.stash[_LEFT_OUT])


def _tell_measured(out: pytest.TerminalReporter) -> None:
    found = [
        prop
        for reports in out.stats.values()
        for report in reports
        if getattr(report, "when", None) == "teardown"
        for prop in report.user_properties
    ]
    for table, heading in _TABLES.items():
        if rows := [row for name, row in found if name == table]:
            out.section(heading)
            for row in rows:
                out.line(row)


def _tell_not_run(out: pytest.TerminalReporter, left_out: Counter[str]) -> None:
    skipped = Counter(_reason(report) for report in out.stats.get("skipped", []))
    if not skipped and not left_out:
        return
    out.section("not run")
    for reason, count in skipped.most_common():
        out.line(f"{count:5} skipped: {reason}")
    for name, what in LONG.items():
        if name in left_out:
            out.line(f"{left_out[name]:5} make test-long ONLY={name:9} {what}")
    if "default" in left_out:
        out.line(f"{left_out['default']:5} make test")


def _reason(report: Any) -> str:
    """Why a test was skipped: pytest has (file, line, "Skipped: why")."""
    place = report.longrepr
    why = str(place[2] if isinstance(place, tuple) else place)
    return " ".join(why.removeprefix("Skipped: ").split())
