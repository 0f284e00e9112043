"""The version of a CNI on the board: that which was measured, whatever its profile names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cnibench.model.profile import builtin
from cnibench.reports.board.build import build
from cnibench.reports.board.versions import version
from cnibench.reports.bundle.making import bundle
from tests.unit._bundles import stored

DIGEST = "a" * 64
CILIUM, KUBE_ROUTER = (
    builtin()[name].model_dump(mode="json", by_alias=True) for name in ("cilium", "kube-router")
)
SHIPPED = CILIUM["kubernetes"]["steps"][0]["chart"]["version"]
SEEN = "Cilium, VXLAN (cilium/cilium:v1.16.3; the profile follows 1.20.2)"


@pytest.mark.parametrize(
    ("profile", "settings", "installed", "expected"),
    [
        (CILIUM, {}, [f"chart cilium {SHIPPED}", "image quay.io/x/cilium:v9"], SHIPPED),
        (CILIUM, {}, [], ""),  # found, and its Pods may not be read
        (CILIUM, {}, None, SHIPPED),  # of an older run, which does not name it
        (CILIUM, {"version": "1.17.0"}, ["chart cilium 1.17.0"], "1.17.0"),
        (CILIUM, {"chart": "./mine"}, ["chart cilium"], ""),
        (CILIUM, {"image": "r/x/cilium:pr"}, ["chart cilium 1.17.0"], "1.17.0 with cilium:pr"),
        (KUBE_ROUTER, {}, ["manifest kube-router.yaml"], "v2.11.1"),
        (KUBE_ROUTER, {"image": "r/kube-router:v2.5.0"}, ["manifest kube-router.yaml"], "v2.5.0"),
        (KUBE_ROUTER, {"manifest": "mine.yaml"}, ["manifest mine.yaml"], ""),
        (CILIUM | {"title": SEEN}, {}, ["image quay.io/cilium/cilium:v1.16.3"], "v1.16.3"),
        (CILIUM | {"title": "Cilium (cilium/cilium:v1.16.3)"}, {}, ["image x"], "v1.16.3"),
        (CILIUM | {"title": "flannel (v1.34.1+k3s1)"}, {}, ["image x"], "v1.34.1+k3s1"),
        (CILIUM | {"title": "Cilium (cilium@sha256:ab)"}, {}, ["image x"], ""),
        (CILIUM, {}, ["image quay.io/cilium/cilium@sha256:ab"], ""),  # found, and not told
    ],
)
def test_it_is_the_one_that_was_measured(
    profile: dict[str, Any], settings: dict[str, str], installed: list[str] | None, expected: str
) -> None:
    plan = {"settings": {"": {}, "a": settings}}
    known = {} if installed is None else {"a": dict.fromkeys(installed, DIGEST)}
    assert version("a", profile, plan, known) == expected


@pytest.mark.parametrize("what", [None, 1, "x", [1], {"steps": "x"}, {"steps": [1, {"chart": 2}]}])
def test_a_bundle_may_say_anything(what: Any) -> None:
    profile = {"title": what, "kubernetes": what}
    assert version("a", profile, {"settings": what}, {"a": what}) == ""


def test_two_versions_are_two_cnis(tmp_path: Path) -> None:
    for number, one in enumerate(("1.17.0", "1.18.0")):
        run = stored(
            tmp_path / f"r{number}",
            {"flannel": 1.0, "cilium": 1.1},
            seed=number,
            fidelity="cni",
            profiles={"flannel": {"name": "flannel"}, "cilium": CILIUM},
            facts={
                "testbed": "cluster",
                "wire": "nic",
                "installed": {"cilium": {f"chart cilium {one}": DIGEST}},
            },
        )
        (tmp_path / "results" / "here").mkdir(parents=True, exist_ok=True)
        (tmp_path / "results" / "here" / f"r{number}.cnibench").write_bytes(bundle(run))
    assert build(tmp_path / "results", tmp_path / "site")["refused"] == []
    text = (tmp_path / "site" / "data.js").read_text()
    assert '"cilium 1.17.0"' in text
    assert '"cilium 1.18.0"' in text
    assert f'"cilium {SHIPPED}"' not in text
