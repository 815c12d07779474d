"""Being in the lab's network, and out of it for a while."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kairoscope.targets.lab.network import Network


@pytest.fixture
def network(needed: None) -> Iterator[Network]:
    made = Network(f"kairoscope-test-{os.getpid()}")
    made.make("10.77.8.1")
    try:
        yield made
    finally:
        made.remove()


def test_a_thread_that_joined_is_outside_for_a_while(network: Network) -> None:
    """Packages are fetched from where this process came from."""

    def here() -> int:
        return Path("/proc/thread-self/ns/net").stat().st_ino

    def work() -> list[int]:
        with network.left():
            seen = [here()]
        network.join()
        assert network.is_ours()
        seen.append(here())
        with network.left():
            assert not network.is_ours()
            seen.append(here())
        with pytest.raises(ZeroDivisionError), network.left():
            seen.append(1 // 0)
        return [*seen, here()]

    before = here()
    with ThreadPoolExecutor(1) as one:
        inside = network.path.stat().st_ino
        assert one.submit(work).result() == [before, inside, before, inside]
    assert here() == before, "a thread alone"
    assert not network.is_ours()
