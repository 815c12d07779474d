"""What several unit tests stand on."""

import pytest

from kairoscope.deploy import bundles


@pytest.fixture
def no_bundles(monkeypatch: pytest.MonkeyPatch) -> None:
    """No run-time bundle needs to have been built: the names of their folders are made up."""
    folder = property(lambda bundle: f"{bundle.name}-of-hash")
    monkeypatch.setattr(bundles.Bundle, "folder", folder)
