"""The parts of a real kind cluster, for the tests that ask for them: built before the first test starts its clock."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the package `kind` beside this file

from kind.parts import Parts, build


def pytest_collection_finish(session: pytest.Session) -> None:
    """A cold cache costs minutes, which no test's time limit should have to hold."""
    if session.config.option.collectonly or not any("kind_parts" in getattr(item, "fixturenames", ()) for item in session.items):
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        build()


@pytest.fixture(scope="session")
def kind_parts() -> Iterator[Parts]:
    """All parts, with the environment set for cnibench, kind, kubectl, helm and podman."""
    parts = build()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in parts.environment().items():
            patch.setenv(name, value)
        patch.delenv("KUBECONFIG", raising=False)
        yield parts


@pytest.fixture(scope="session")
def kind_image(kind_parts: Parts) -> str:
    """The node image's name."""
    return kind_parts.node_image
