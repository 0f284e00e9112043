"""Helm charts rendered to objects, with the cluster's variables and --set filled in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.cni import chart_archives, sources
from cnibench.clusters.kubernetes.cni.files import documents
from cnibench.clusters.kubernetes.cni.pod_specs import Object, containers, pod_specs
from cnibench.clusters.kubernetes.cni.sources import Rendered
from cnibench.clusters.kubernetes.cni.variables import substitute
from cnibench.errors import InputError, UsageError
from cnibench.model.installation import Chart

# keys of --set that are no chart's and no manifest's
OWN = ("chart", "version", "image", "image-archive", "manifest")
_RENDERING = 120.0  # s
# By chart, what was rendered last, and what of: an installation asks for the same twice, once for
# its images.
_last: dict[str, tuple[tuple[str, ...], str]] = {}
_NAMESPACED = (
    "ServiceAccount",
    "ConfigMap",
    "Secret",
    "Service",
    "Role",
    "RoleBinding",
    "Pod",
    "DaemonSet",
    "Deployment",
    "StatefulSet",
    "Job",
    "CronJob",
    "PodDisruptionBudget",
    "NetworkPolicy",
    "Endpoints",
    "EndpointSlice",
    "Lease",
    "Ingress",
    "HorizontalPodAutoscaler",
    "ServiceMonitor",
)


def namespace_of(chart: Chart) -> list[Object]:
    """A CNI's Pods are privileged: the namespace that is made for them allows that (Pod Security
    admission).
    """
    if chart.namespace in ("kube-system", "default"):
        return []
    labels = {
        f"pod-security.kubernetes.io/{mode}": "privileged" for mode in ("enforce", "audit", "warn")
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": chart.namespace, "labels": labels},
        }
    ]


def rendered(
    access: Access,
    chart: Chart,
    settings: Mapping[str, str],
    variables: Mapping[str, str],
    last: bool,
) -> Rendered:
    """The chart's archive is fetched, or one that --set names is taken, and rendered; keys without
    a chart's name go to the last chart, which is the CNI's own.
    """

    def asked(key: str) -> str:
        return settings.get(f"{key}.{chart.name}") or (settings.get(key, "") if last else "")

    local = asked("chart")
    if local and not Path(local).exists():
        raise InputError(
            f"{local}: there is no such chart",
            "a chart is a folder with Chart.yaml, or a .tgz of it",
        )
    argv = ["--namespace", chart.namespace, "--include-crds", "--values", "-"]
    argv += ["--kube-version", access.server_version]
    if not chart.hooks:
        argv.append("--no-hooks")
    if last:
        argv += [
            word
            for key, value in settings.items()
            if _is_value(key)
            for word in ("--set", f"{key}={value}")
        ]
        argv += _image(chart, settings.get("image", ""))
    values = json.dumps(substitute(chart.values, variables))
    version = asked("version") or chart.version
    with (
        nullcontext(Path(local)) if local else chart_archives.fetched(access, chart, version)
    ) as path:
        name = f"chart {chart.name}" if local else f"chart {chart.name} {version}"
        source = {name: sources.of_path(path)}
        wanted = (source[name], chart.release or chart.name, values, *argv)
        known, text = _last.get(chart.name, ((), ""))
        if known != wanted:
            argv = ["template", chart.release or chart.name, str(path), *argv]
            text = access.helm(*argv, timeout=_RENDERING, input=values).stdout
            _last[chart.name] = wanted, text
    found = list(documents(text, f"the chart {chart.name}"))
    for item in found:  # what helm install does and helm template does not
        if item["kind"] in _NAMESPACED:
            item.setdefault("metadata", {}).setdefault("namespace", chart.namespace)
        for container in (
            one
            for pod in pod_specs(item)
            for one in containers(pod)
            if one["name"] in chart.privileged
        ):
            container["securityContext"] = {
                **(container.get("securityContext") or {}),
                "privileged": True,
            }
    return Rendered(found, source)


def _is_value(key: str) -> bool:
    return key not in OWN and not key.startswith(("chart.", "version."))


def _image(chart: Chart, name: str) -> list[str]:
    if not name:
        return []
    keys = chart.image.split(",")
    if len(keys) == 1:
        return ["--set", f"{keys[0]}={name}"]
    repository, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        raise UsageError(f"--set image={name}: a tag is missing", "write NAME:TAG")
    return ["--set", f"{keys[0]}={repository}", "--set", f"{keys[1]}={tag}"]
