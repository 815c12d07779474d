"""Servers killed after a load: all that is below them with them, and until they serve again."""

import subprocess
import sys
from typing import Any

import psutil
import pytest

from kairoscope.errors import UserError
from kairoscope.run import killing

_PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


def test_a_servers_children_are_killed_with_it() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout
        child = psutil.Process(int(parent.stdout.readline()))
        assert killing._kill([parent.pid]) == 2
        assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
    assert killing._kill([parent.pid]) == 0  # It is gone by now.


class Server:
    """A session of servers that are well when they were asked so often."""

    def __init__(self, well_after: int) -> None:
        self.left = well_after

    def check_ready(self) -> None:
        self.left -= 1
        if self.left >= 0:
            raise UserError("x-1 is not healthy")


def test_it_waits_until_the_servers_are_well_or_says_what_is_amiss() -> None:
    pauses: list[float] = []
    slow: Any = Server(well_after=3)
    assert killing._back(slow, 60, pauses.append) >= 0
    assert len(pauses) == 3
    gone: Any = Server(well_after=10_000)
    with pytest.raises(UserError, match=r"not back 0 s after a kill: x-1 is not healthy"):
        killing._back(gone, 0, pauses.append)


def test_hosts_of_their_own_are_refused() -> None:
    class Managed:
        managed = True

    hosts: Any = Managed()
    with pytest.raises(UserError, match="is for target local"):
        killing.check(hosts)
