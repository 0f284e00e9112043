"""The cluster that a run with --keep left: created for the tests of this folder, once, and deleted
before the tests of other files begin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from _kind_runs import CNIBENCH, SHORT, clusters, cnibench, kept_cluster, output
from kind import images
from kind.parts import Parts


@pytest.fixture(scope="package")
def home(kind_parts: Parts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """State of our own, and our images in the engine."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        patch.setenv("CNIBENCH_KIND_IMAGE", kind_parts.node_image)
        yield folder


@pytest.fixture(scope="package")
def flannel(kind_parts: Parts) -> list[str]:
    """What installs flannel where nothing can be fetched; the nodes have its images."""
    return ["--set", f"chart={kind_parts.charts['flannel']}"]


@pytest.fixture(scope="package")
def kept(
    home: Path, flannel: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Any]]:
    """A whole run with --keep, and the cluster that it left: the folder it ran in, its kubeconfig,
    its name.
    """
    folder = tmp_path_factory.mktemp("kept")
    done = cnibench(
        "run",
        "--cluster",
        "kind",
        "--cni",
        "flannel",
        "--workload",
        "tcp-rr",
        "--keep",
        "--method",
        "windows",
        *SHORT,
        "--duration",
        "6s",  # all tests wait for it: that perf begins late must not fail it
        *flannel,
        "--image-archive",
        images.control_plane() / "pause.tar",  # a small one: of flannel's it takes most of a minute
        cwd=folder,
    )
    kubeconfig, name = kept_cluster(done.stderr)
    ask = (
        "kubectl",
        "--kubeconfig",
        kubeconfig,
        "get",
        "pod",
        "a0",
        "-n",
        name,
        "-o",
        "jsonpath={.spec.containers[0].image}",
    )
    image = output(*ask)
    # As a cluster like any other it has a namespace that no run owns, and a CNI of its own.
    assert f"the namespace {name}" in output(
        CNIBENCH, "clean", "--cluster", "existing", "--kubeconfig", kubeconfig
    )
    yield {"folder": folder, "kubeconfig": kubeconfig, "name": name, "image": image}
    assert f"the kind cluster {name}" in output(CNIBENCH, "clean", "--cluster", "kind")
    assert name not in clusters()  # others on this machine may have clusters of their own
    assert not list((home / "state" / "cnibench" / "clusters").iterdir())


@pytest.fixture
def existing(kept: Mapping[str, Any]) -> list[str]:
    return ["--cluster", "existing", "--kubeconfig", kept["kubeconfig"], "--toleration", "all"]
