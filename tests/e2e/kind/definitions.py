"""Definitions of other projects' objects, as Kubernetes' own module carries them for its
add-ons.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from . import cache
from .command import run
from .gobuild import MODULES
from .toolchain import go

_KUBERNETES = MODULES / "kubernetes"


def calico_policies() -> Path:
    """The definition of Calico's NetworkPolicy (crd.projectcalico.org/v1)."""
    source = "cluster/addons/calico-policy-controller/networkpolicies-crd.yaml"

    def copy(where: Path) -> None:
        said = run(
            go(),
            "mod",
            "download",
            "-json",
            "k8s.io/kubernetes",
            cwd=_KUBERNETES,
            env={"GOTOOLCHAIN": "local"},
        )
        shutil.copyfile(Path(json.loads(said)["Dir"]) / source, where / "networkpolicies.yaml")

    return (
        cache.part(
            "definitions-calico", cache.key(source, _KUBERNETES / "go.mod", Path(__file__)), copy
        )
        / "networkpolicies.yaml"
    )
