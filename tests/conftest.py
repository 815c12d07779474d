"""What holds for all layers."""

import signal

import pytest

# A shell starts what it puts in the background with SIGINT ignored, and that is handed on to every
# process below: tests that press Ctrl-C would wait in vain.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Files that share a deployment, by the layer's folder; every other file is a group of its own.
_ALONE = {"cluster": {"test_secured"}, "cloud": set()}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share a deployment stay together when layers run side by side (`-n`)."""
    for item in items:
        layer, file = item.path.parent.name, item.path.stem
        together = layer in _ALONE and file not in _ALONE[layer]
        item.add_marker(pytest.mark.xdist_group(layer if together else f"{layer}-{file}"))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """A release of pytest and one of pytest-xdist that do not understand each other leave the
    groups out without a word; tests of one deployment would run beside each other then."""
    if getattr(session.config.option, "loadgroup", False):
        apart = [item.nodeid for item in session.items if "@" not in item.nodeid.rpartition("]")[2]]
        if apart:
            raise pytest.UsageError(f"{apart[0]} has no group: see tests/conftest.py")
