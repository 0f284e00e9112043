"""Which archives of images the second of two machines needs."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from cnibench.clusters.ssh.archives import of_control_plane


def saved(path: Path, manifest: Any, mode: str = "w") -> Path:
    """An archive as ``docker save`` makes it."""
    data = json.dumps(manifest).encode()
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        member = tarfile.TarInfo("manifest.json")
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))
    return path


def images(*names: str) -> list[dict[str, Any]]:
    return [{"Config": "x.json", "RepoTags": [name], "Layers": []} for name in names]


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["registry.k8s.io/etcd:3.6.5-0"], True),
        (["registry.k8s.io/kube-apiserver:v1.34.4", "k8s.local:5000/kube-scheduler:v1.34.4"], True),
        (["registry.k8s.io/kube-controller-manager:v1.34.4"], True),
        (["registry.k8s.io/kube-proxy:v1.34.4"], False),
        (["registry.k8s.io/coredns/coredns:v1.12.1"], False),  # runs on either node
        (["registry.k8s.io/etcd:3.6.5-0", "registry.k8s.io/pause:3.10.1"], False),
        ([], False),
    ],
)
def test_only_the_control_planes_own_are_its_nodes_alone(
    names: list[str], found: bool, tmp_path: Path
) -> None:
    assert of_control_plane(saved(tmp_path / "archive.tar", images(*names))) is found


@pytest.mark.parametrize("manifest", [{"a": 1}, [1], [{"RepoTags": None}], [{"RepoTags": [1]}], 7])
def test_what_is_not_understood_goes_to_both(manifest: Any, tmp_path: Path) -> None:
    assert not of_control_plane(saved(tmp_path / "archive.tar", manifest))


def test_other_formats_go_to_both(tmp_path: Path) -> None:
    etcd = images("registry.k8s.io/etcd:3.6.5-0")
    assert not of_control_plane(saved(tmp_path / "archive.tar.gz", etcd, "w:gz"))
    (tmp_path / "none.tar").write_text("no archive")
    assert not of_control_plane(tmp_path / "none.tar")
    assert not of_control_plane(tmp_path / "absent.tar")
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass
    assert not of_control_plane(tmp_path / "empty.tar")
