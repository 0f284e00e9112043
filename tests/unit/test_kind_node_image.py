"""A node image that is not here is named before anything starts."""

from __future__ import annotations

import pytest

from cnibench.clusters.kind.cluster import KindCluster
from cnibench.clusters.kubernetes import images
from cnibench.testbed.cluster import ClusterOptions, Options

IMAGE = "localhost/nodes:1"


@pytest.mark.parametrize(
    ("engine", "image", "named"),
    [("false", IMAGE, True), ("true", IMAGE, False), ("false", "example.org/nodes:1", False)],
)
@pytest.mark.parametrize("by", ["option", "environment"])
def test_a_node_image_that_no_registry_has_must_be_here(
    engine: str, image: str, named: bool, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``true`` and ``false`` answer every question of an engine."""
    monkeypatch.setattr(images, "engine", lambda: images.Engine(engine))
    monkeypatch.delenv("CNIBENCH_KIND_IMAGE", raising=False)
    if by == "environment":
        monkeypatch.setenv("CNIBENCH_KIND_IMAGE", image)
    asked = ClusterOptions(node_image=image) if by == "option" else ClusterOptions()
    found = [one for one in KindCluster(Options(cluster=asked)).missing() if image in one.lacks]
    assert len(found) == named
    for one in found:
        assert one.lacks == f"false does not have the node image {IMAGE}"
        assert "--node-image" in one.remedy
