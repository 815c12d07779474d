"""What holds for all layers."""

import signal

import pytest

# A shell starts what it puts in the background with SIGINT ignored, and that is handed on to every
# process below: tests that press Ctrl-C would wait in vain.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What runs side by side (`-n`): the layers, in each of which most files share a deployment, and
# files that have their own. The longest first, so that all do not wait for one at the end.
_GROUPS = (
    "lab",
    "lab/test_nodes",
    "cluster",
    "cloud",
    "cluster/test_secured",
    "lab/test_lab_scylla",
    "lab/test_lab_firewall",
    "lab/test_lab_hosts",
    "unit",
)


def _group(item: pytest.Item) -> str:
    layer = item.path.parent.name
    file = f"{layer}/{item.path.stem}"
    return file if file in _GROUPS else layer


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests are of their folder's layer; those that share a deployment stay together."""
    for item in items:
        item.add_marker(item.path.parent.name)
        item.add_marker(pytest.mark.xdist_group(_group(item).replace("/", "-")))
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
    """What tests measured beside their outcome: rows of docs/operations.md."""
    rows = [
        row
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "teardown"
        for name, row in report.user_properties
        if name == "effect"
    ]
    if rows:
        terminalreporter.section(
            "verb | under load of the time | acknowledged | lost | p99 | points"
        )
        for row in rows:
            terminalreporter.line(row)
