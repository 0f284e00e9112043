"""Which suite a file belongs to, and the parts of a real kind cluster for the tests that ask for
them.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the package `kind` beside this file

from kind import limits, parts, reroot
from kind.command import Failed
from kind.parts import Parts

if TYPE_CHECKING:
    from _kind_cluster import Kept
    from _kind_fidelity import Found
    from _machines import Machines

    from cnibench.clusters.kubernetes.deployment import KubernetesDeployment

SUITES = {
    "test_kind_charts": "kubernetes-runs",
    "test_kind_nodes": "kubernetes-runs",
    "test_kind_run": "kubernetes-runs",
    "test_kind_": "kubernetes",
    "test_ssh_virtual": "vm-models",
    "test_ssh": "kubernetes-runs",
    "test_vm_models": "vm-models",
    "test_vm": "vm",
    "test_site_browser": "browser",
    "test_release": "release",
}
"""How a file's name begins, and its suite; the first match counts. All others need only the lab.
Suites may run at the same time: each has clusters of its own.
"""
COMMANDS = "commands"
FIRST = ("test_slices_run", "test_run_faults", "test_run_for_scripts")
"""Of COMMANDS: the longest files. One that came last would run alone, with a CPU idle."""

_built = functools.cache(parts.build)


def pytest_addoption(parser: pytest.Parser) -> None:
    choices = sorted({COMMANDS, *SUITES.values()})
    parser.addoption("--suite", choices=choices, help="only the files of this suite are read")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    wanted, name = config.getoption("--suite"), collection_path.name
    if wanted is None or not name.startswith("test_"):
        return None
    suite = next((suite for begin, suite in SUITES.items() if name.startswith(begin)), COMMANDS)
    return True if suite != wanted else None


def _needs_parts(item: pytest.Item) -> bool:
    return "kind_parts" in getattr(item, "fixturenames", ())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that need the parts come last: they may still be built in the background. Of them,
    those that share a cluster.

    Of those the comparison with the lab comes first: one of the others uses iptables-legacy, whose
    table the kernel keeps, empty, as long as the node lives, and packets walk it.
    """

    def place(item: pytest.Item) -> tuple[bool, bool, bool, int]:
        shares = "bare_cluster" in getattr(item, "fixturenames", ())
        not_compared = shares and "test_kind_fidelity" not in item.nodeid
        first = FIRST.index(item.path.stem) if item.path.stem in FIRST else len(FIRST)
        return _needs_parts(item), shares, not_compared, first

    items.sort(key=place)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Now, while this process has one thread."""
    if not session.config.option.collectonly and any(map(_needs_parts, session.items)):
        reroot.ensure()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """A cold cache costs minutes, which no test's time limit should have to hold: the parts are
    made before a clock starts.
    """
    if _needs_parts(item):
        capture = item.config.pluginmanager.getplugin("capturemanager")
        with (
            capture.global_and_fixture_disabled(),
            contextlib.suppress(Failed),
        ):  # the fixture tries again, and its failure is told
            _built()
    return (yield)


@pytest.fixture(scope="session")
def kind_parts() -> Iterator[Parts]:
    """All parts, with the environment set for cnibench, kind, kubectl, helm and podman."""
    built = _built()
    with limits.raised(), pytest.MonkeyPatch.context() as patch:
        for name, value in built.environment().items():
            patch.setenv(name, value)
        patch.delenv("KUBECONFIG", raising=False)
        yield built


@pytest.fixture(scope="session")
def kind_image(kind_parts: Parts) -> str:
    """The node image's name."""
    return kind_parts.node_image


@pytest.fixture(scope="session")
def bare_cluster(kind_parts: Parts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    """A kind cluster without a CNI that several files' tests share; they leave it as it was."""
    from _kind_cluster import kept

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CNIBENCH_KIND_IMAGE", kind_parts.node_image)
        yield from kept(kind_parts, tmp_path_factory.mktemp("audit"))


@pytest.fixture(scope="session")
def real(bare_cluster: Kept, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What the CNIs of PROFILES make there, one after the other."""
    from _kind_fidelity import of_kind

    return of_kind(bare_cluster, tmp_path_factory.mktemp("real"))


@pytest.fixture(scope="module")
def machines(kind_parts: Parts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """Two bare machines that ssh leads to; each test leaves them as they were."""
    from _machines import machines

    yield from machines(kind_parts, tmp_path_factory.mktemp("machines"))


@pytest.fixture(scope="module")
def deployment(
    request: pytest.FixtureRequest, bare_cluster: Kept
) -> Iterator[KubernetesDeployment]:
    """The profile of the parameter, installed; nothing is left on the nodes afterwards."""
    from cnibench.clusters.kubernetes import install
    from cnibench.model.profile import builtin

    kept, profile = bare_cluster, builtin()[request.param]
    kept.install(profile)
    try:
        kept.ready(profile)
        found = kept.deployment(profile)
        try:
            yield found
        finally:
            found.remove()
    finally:
        kept.remove()
    assert install.recorded(kept.access) == ""
    assert kept.left(kept.bare) == []
