"""Files that are the only record of something, on a disk that is full in the middle of them."""

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from test_operate import planned, write_inventory

from kairoscope import paths, whole
from kairoscope.deploy import bootstrap, deploy
from kairoscope.errors import UserError
from kairoscope.hosts import operation
from kairoscope.hosts.deployed import deployed_plan
from kairoscope.hosts.operation import Operation


@contextmanager
def full_after(bytes_: int) -> Iterator[None]:
    """No file of this process gets longer than that: the kernel refuses in the middle of a write,
    as it does where a disk is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)


@pytest.fixture
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def _inventory() -> None:
    bootstrap.set_replaces("lab", "storage-2", "10.0.0.2")


def _plan() -> None:
    deploy._fix_shape(planned(storage_nodes=4))


def _note() -> None:
    operation.begin("lab", Operation("add-storage", memory="storage-1 " * 30))


@pytest.mark.parametrize("change", [_inventory, _plan, _note])
def test_a_full_disk_leaves_what_was_there(change, home):
    begun = write_inventory(planned())
    operation.begin("lab", Operation("add-storage"))
    before = {path: path.read_bytes() for path in paths.target_dir("lab").iterdir()}
    with full_after(100), pytest.raises(UserError, match="cannot be written"):
        change()
    assert {path: path.read_bytes() for path in paths.target_dir("lab").iterdir()} == before
    assert bootstrap.read("lab") == begun
    assert deployed_plan("lab").experiment.cluster.storage_nodes == 3
    change()
    assert {path: path.read_bytes() for path in paths.target_dir("lab").iterdir()} != before


def test_it_is_on_the_disk_before_it_has_its_name(monkeypatch, tmp_path):
    """Else there is an empty file of that name after a loss of power."""
    done: list[Any] = []
    sync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda fd: done.append(os.fstat(fd).st_size) or sync(fd))
    monkeypatch.setattr(Path, "replace", lambda one, to: done.append(to) or replace(one, to))
    path = tmp_path / "inventory.yml"
    path.write_text("before")
    whole.record(path, "after it")
    assert done == [len("after it"), path]
    assert path.read_text() == "after it"
    assert list(tmp_path.iterdir()) == [path]
