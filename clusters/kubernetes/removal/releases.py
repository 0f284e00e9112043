"""Helm releases of a CNI that somebody else installed: an umbrella chart's release has objects of
other projects, which must not go with the CNI.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

import yaml

from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.api.kinds import group
from cnibench.clusters.kubernetes.removal.inventory import Thing
from cnibench.clusters.kubernetes.removal.selection import BlockedError
from cnibench.errors import ClusterError

_SOURCE = re.compile(r"^# Source: (\S+)$", re.MULTILINE)  # helm writes it before each object
_NAMED = 10  # objects that a message names


def check(access: Access, release: str, charts: Collection[str], things: Sequence[Thing]) -> None:
    """Raises BlockedError naming those ``things`` of the release NAMESPACE/NAME that are not made
    by one of these charts; ClusterError when helm does not say what made them.
    """
    namespace, _, name = release.partition("/")
    try:
        manifest = access.helm("get", "manifest", name, "-n", namespace).stdout
        own = objects_of(manifest, charts)
    except (ClusterError, yaml.YAMLError) as error:
        raise ClusterError(
            f"what the helm release {release} consists of cannot be read: {error}",
            f"helm get manifest {name} -n {namespace} says why",
        ) from None
    foreign = [one for one in things if (one.kind.group, one.kind.kind, one.name) not in own]
    if foreign:
        more = f" and {len(foreign) - _NAMED} more" if len(foreign) > _NAMED else ""
        raise BlockedError(
            f"the helm release {release} is not removed, for it has objects of other charts than"
            f" {', '.join(sorted(charts)) or 'the CNI'}:"
            f" {', '.join(map(str, foreign[:_NAMED]))}{more}",
            "install the CNI by a release of its own, or remove the release with helm uninstall",
        )


def objects_of(manifest: str, charts: Collection[str]) -> set[tuple[str, str, str]]:
    """(API group, kind, name) of all objects of ``helm get manifest`` that one of these charts
    made, also as a part of another chart.
    """
    found = set()
    for text in re.split(r"^---\s*$", manifest, flags=re.MULTILINE):
        source = _SOURCE.search(text)
        if source is None or not _made_by(source[1].split("/"), charts):
            continue
        item: Any = yaml.safe_load(text)
        if isinstance(item, dict):
            found.add((group(item["apiVersion"]), item["kind"], item["metadata"]["name"]))
    return found


def _made_by(path: Sequence[str], charts: Collection[str]) -> bool:
    """CHART/templates/FILE, or PARENT/charts/CHART/templates/FILE."""
    parents = [path[0], *(path[at + 1] for at, part in enumerate(path[:-1]) if part == "charts")]
    return any(name in charts for name in parents)
