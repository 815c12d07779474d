"""What `make status` makes of processes that have just been started."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kairoscope.deploy import status
from kairoscope.hosts import services
from kairoscope.hosts.inventory import Inventory
from kairoscope.hosts.supervisor import Process

NOTHING = Inventory(Path("/nowhere"), [], [], [])


def looks(monkeypatch: pytest.MonkeyPatch, *states: str) -> Iterator[str]:
    """Have the state of one process be another at each look; those that were not looked at."""
    left = iter(states)
    last = states[-1]

    def of(*_: object) -> dict[str, Process]:
        return {"server-1": Process("server-1", next(left, last), 7, 0.0)}

    monkeypatch.setattr(services, "of", of)
    monkeypatch.setattr(status, "_LOOK_S", 0.001)
    return left


@pytest.mark.parametrize("then", ["RUNNING", "BACKOFF", "FATAL"])
def test_one_that_is_starting_is_looked_at_until_it_is_not(monkeypatch, then):
    left = looks(monkeypatch, "STARTING", "STARTING", then)
    assert status._settled(NOTHING, "local")["server-1"].state == then
    assert list(left) == []


def test_it_is_not_waited_for_longer_than_a_start_takes(monkeypatch):
    monkeypatch.setattr(status, "_STARTING_S", 0.05)
    looks(monkeypatch, "STARTING")
    assert status._settled(NOTHING, "local")["server-1"].state == "STARTING"


def test_others_are_told_at_once(monkeypatch):
    left = looks(monkeypatch, "STOPPED", "RUNNING")
    assert status._settled(NOTHING, "local")["server-1"].state == "STOPPED"
    assert list(left) == ["RUNNING"]
