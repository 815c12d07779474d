"""What systemd says of a service."""

import pytest

from kairoscope.hosts import services
from kairoscope.hosts.inventory import Host


@pytest.mark.parametrize(
    ("active", "sub", "pid", "state"),
    [
        ("active", "running", 812, "RUNNING"),
        ("activating", "auto-restart", 0, "activating/auto-restart"),
        ("inactive", "dead", 0, "inactive/dead"),
        ("failed", "failed", 0, "failed/failed"),
    ],
)
def test_state(active: str, sub: str, pid: int, state: str) -> None:
    said = (
        f"MainPID={pid}\nActiveEnterTimestampMonotonic=40000000\nActiveState={active}\n"
        f"SubState={sub}\n100.50 190.00\n"
    )
    (found,) = services.from_show(["kairosdb-1"], said, now=1000.5)
    assert (found.name, found.state, found.pid) == ("kairosdb-1", state, pid)
    # It came up 40 s after the boot, which was 100.5 s ago.
    assert found.started == pytest.approx(940)


def test_a_unit_that_is_not_there() -> None:
    said = "MainPID=0\nActiveEnterTimestampMonotonic=0\nActiveState=inactive\nSubState=dead\n5 5\n"
    (found,) = services.from_show(["storage-1"], said, now=5)
    assert found.state == "inactive/dead"


def test_several_of_a_host() -> None:
    one = (
        "MainPID={}\nActiveEnterTimestampMonotonic=40000000\nActiveState=active\nSubState=running\n"
    )
    said = f"{one.format(7)}\n{one.format(8)}100.50 190.00\n"
    found = services.from_show(["api", "metricd"], said, now=1000.5)
    assert [(each.name, each.pid) for each in found] == [("api", 7), ("metricd", 8)]


def test_units_of_a_hosts_servers() -> None:
    def units(**more: object) -> dict[str, str]:
        return Host("gnocchi-1", "kairosdb", more).units

    assert units() == {}
    assert units(unit="kairosdb") == {"gnocchi-1": "kairosdb"}
    several = {"api": "api", "metricd": "metricd"}
    assert units(unit="gnocchi", processes=several) == {
        "api": "gnocchi-api",
        "metricd": "gnocchi-metricd",
    }
