"""What a profile's installation consists of: charts rendered by helm and manifests read, with the
cluster's variables and --set filled in.

Nothing here changes a cluster. The same objects are applied, tried (server-side dry-run), searched
for images and deleted again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.cni import charts, files
from cnibench.clusters.kubernetes.cni.pod_specs import Object, adapt
from cnibench.clusters.kubernetes.cni.sources import Rendered
from cnibench.clusters.kubernetes.cni.variables import derived
from cnibench.errors import InputError, UsageError
from cnibench.model.installation import Chart, Installation
from cnibench.model.profile import Profile

LABEL = "cnibench.io/profile"


def render(
    access: Access, profile: Profile, settings: Mapping[str, str], variables: Mapping[str, str]
) -> Rendered:
    """All objects that are applied, in order. Raises UsageError, InputError, MissingError,
    ClusterError (helm's own words), LimitError.
    """
    about = installation(profile)
    check(profile, settings)
    known = {**derived(variables), **variables}
    own = _charts(about)
    found: list[Object] = []
    sources: dict[str, str] = {}
    for step in about.steps:
        if step.chart:
            found += charts.namespace_of(step.chart)
            last = step.chart is own[-1]
            part = charts.rendered(access, step.chart, settings, known, last=last)
        elif step.manifest:
            part = files.rendered(step.manifest, settings, known)
        else:
            continue
        found += part.objects
        sources |= part.sources
    for item in found:
        item.setdefault("metadata", {}).setdefault("labels", {})[LABEL] = profile.name
        adapt(item, known.get("registry", ""), known.get("pull_secret", ""))
    return Rendered(found, sources)


def installation(profile: Profile) -> Installation:
    """Raises UsageError when the profile cannot be installed on Kubernetes."""
    if profile.kubernetes is None:
        raise UsageError(
            f"{profile.name}: it does not say how to install it on Kubernetes",
            "choose another one: 'cnibench profiles' lists them",
        )
    return profile.kubernetes


def check(profile: Profile, settings: Mapping[str, str]) -> None:
    """Every key of --set must mean something to this profile. Raises UsageError."""
    about = installation(profile)
    own = _charts(about)
    options = {key for step in about.steps if step.manifest for key in step.manifest.options}
    for key in settings:
        first, _, name = key.partition(".")
        if key == "image-archive" or (
            own
            and (
                key in ("chart", "version")
                or (first in ("chart", "version") and name in {one.name for one in own})
            )
        ):
            continue
        if key in options or (key == "manifest" and not own):
            continue
        if key == "image" and own and own[-1].image:
            continue
        if own and key not in charts.OWN:
            continue  # a value of the chart: helm itself knows which there are
        known = sorted(
            options | ({"chart", "version", "image"} if own else {"manifest"}) | {"image-archive"}
        )
        raise UsageError(
            f"{profile.name}: --set {key} is not an option on Kubernetes",
            f"it takes: {', '.join(known)}" + (", the chart's values" if own else ""),
        )


def archives(settings: Mapping[str, str]) -> list[Path]:
    """The image archives that --set image-archive=PATH[,PATH] names. Raises InputError when there
    is no such file.
    """
    paths = [Path(part) for part in settings.get("image-archive", "").split(",") if part]
    for path in paths:
        if not path.is_file():
            raise InputError(
                f"{path}: no such image archive",
                "make one with 'podman save -o FILE IMAGE' or 'docker save -o FILE IMAGE'",
            )
    return paths


def _charts(about: Installation) -> list[Chart]:
    return [step.chart for step in about.steps if step.chart]
