"""What several unit tests stand on."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from kairoscope import paths
from kairoscope.deploy import bundles, monitoring
from kairoscope.targets import local


@pytest.fixture
def narrate() -> ModuleType:
    """Ansible's callback of that name, which belongs to no package."""
    path = paths.ANSIBLE / "plugins" / "callback" / "narrate.py"
    spec = importlib.util.spec_from_file_location("narrate", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def no_bundles(monkeypatch: pytest.MonkeyPatch) -> None:
    """No run-time bundle needs to have been built: the names of their folders are made up."""
    folder = property(lambda bundle: f"{bundle.name}-of-hash")
    monkeypatch.setattr(bundles.Bundle, "folder", folder)


@pytest.fixture
def nothing_fetched(no_bundles: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No bundle, Java or apt is needed to say what the inventory of a watched target has."""
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KAIROSCOPE_SECRETS", str(tmp_path / "secrets"))
    monkeypatch.setenv("KAIROSCOPE_LOCAL_NET", "127.9.8")
    monkeypatch.setattr(local, "java17", lambda: "/java")
    monkeypatch.setattr(bundles, "java17", lambda: "/java")
    monkeypatch.setattr(bundles, "full_version", lambda _: "17")
    monkeypatch.setattr(
        monitoring,
        "packed",
        lambda name, parts: bundles.Packed(Path(f"/{name}.tar"), f"{name}-of-hash"),
    )
