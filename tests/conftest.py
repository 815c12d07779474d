"""What holds for all layers."""

import signal
from collections.abc import Iterator

import hypothesis
import pytest

# No test fails for being slow: machines are shared, and layers run side by side.
hypothesis.settings.register_profile("kairoscope", deadline=None)
hypothesis.settings.load_profile("kairoscope")

# A shell starts what it puts in the background with SIGINT ignored, and that is handed on to every
# process below: tests that press Ctrl-C would wait in vain.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What runs side by side (`-n`): the layers, in each of which most files share a deployment, and
# files that have their own. The longest first, so that all do not wait for one at the end; a worker
# gets its next when two tests of what it has are left.
_GROUPS = (
    "lab",
    "lab/test_operations",
    "cluster",
    "cloud",
    "lab/test_lab_scylla",
    "cluster/test_secured",
    "cluster/test_kills",
    "cluster/test_killed_together",
    "cluster/test_attacks",
    "cluster/test_own_scylla",
    "lab/test_lab_firewall",
    "lab/test_lab_hosts",
    "unit",
)
# What tests measured beside their outcome, by the property that they record it as.
_TABLES = {
    "effect": "verb | under load of the time | acknowledged | lost | p99 | points",
    "killed": "queue | what happened | acknowledged | not found | given up",
    "killed together": "engine | queue | crashes | acknowledged | "
    "not read back | repaired | not found | lost | on neither node in the end",
    "attacked": "what was done | acknowledged | lost | given up | p99",
}


def _file(item: pytest.Item) -> str:
    return f"{item.path.parent.name}/{item.path.stem}"


def _group(item: pytest.Item) -> str:
    return _file(item) if _file(item) in _GROUPS else item.path.parent.name


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Tests are of their folder's layer, but for those that are marked as `long`, too long for CI
    beside all else; those that share a deployment stay together."""
    for item in items:
        if not item.get_closest_marker("long"):
            item.add_marker(item.path.parent.name)
        item.add_marker(pytest.mark.xdist_group(_group(item).replace("/", "-")))
    # Before xdist hands out what is left: it goes by the order.
    yield
    items.sort(key=lambda item: _GROUPS.index(_group(item)))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """A release of pytest and one of pytest-xdist that do not understand each other leave the
    groups out without a word; tests of one deployment would run beside each other then."""
    if getattr(session.config.option, "loadgroup", False):
        apart = [item.nodeid for item in session.items if "@" not in item.nodeid.rpartition("]")[2]]
        if apart:
            raise pytest.UsageError(f"{apart[0]} has no group: see tests/conftest.py")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests measured: rows of docs/operations.md and docs/coalescing.md."""
    found = [
        prop
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "teardown"
        for prop in report.user_properties
    ]
    for table, heading in _TABLES.items():
        if rows := [row for name, row in found if name == table]:
            terminalreporter.section(heading)
            for row in rows:
                terminalreporter.line(row)
