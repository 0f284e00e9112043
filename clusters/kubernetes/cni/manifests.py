"""What a profile's installation consists of: charts rendered by helm and manifests read, with the
cluster's variables and --set filled in.

Nothing here changes a cluster. The same objects are applied, tried (server-side dry-run), searched
for images and deleted again.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from cnibench.clusters.kubernetes.api.access import Access
from cnibench.errors import InputError, MissingError, UsageError
from cnibench.model.installation import Chart, Installation, Manifest
from cnibench.model.profile import Profile

FOLDER = Path(__file__).parents[1] / "manifests"
LABEL = "cnibench.io/profile"
_OWN = (
    "chart",
    "version",
    "image",
    "image-archive",
    "manifest",
)  # keys of --set that are no chart's and no manifest's
_VARIABLE = re.compile(r"\$\{(\??)([a-z0-9_:]+)\}")
_RENDERING = 120.0  # s: a chart that is fetched first
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
_LARGEST = 4 * 1024 * 1024  # bytes of a manifest from elsewhere

Object = dict[str, Any]


def render(
    access: Access, profile: Profile, settings: Mapping[str, str], variables: Mapping[str, str]
) -> list[Object]:
    """All objects that are applied, in order. Raises UsageError, InputError, MissingError,
    ClusterError (helm's own words), LimitError.
    """
    about = installation(profile)
    check(profile, settings)
    known = {**_derived(variables), **variables}
    charts = [step.chart for step in about.steps if step.chart]
    found: list[Object] = []
    for step in about.steps:
        if step.chart:
            found += _namespace(step.chart)
            found += _chart(access, step.chart, settings, known, last=step.chart is charts[-1])
        elif step.manifest:
            found += _manifest(step.manifest, settings, known)
    for item in found:
        item.setdefault("metadata", {}).setdefault("labels", {})[LABEL] = profile.name
        _adapt(item, known.get("registry", ""), known.get("pull_secret", ""))
    return found


def installation(profile: Profile) -> Installation:
    """Raises UsageError when the profile cannot be installed on Kubernetes."""
    if profile.kubernetes is None:
        raise UsageError(
            f"{profile.name}: it does not say how it is installed on Kubernetes",
            "choose another one: 'cnibench profiles' lists them",
        )
    return profile.kubernetes


def check(profile: Profile, settings: Mapping[str, str]) -> None:
    """Every key of --set must mean something to this profile. Raises UsageError."""
    about = installation(profile)
    charts = [step.chart for step in about.steps if step.chart]
    options = {key for step in about.steps if step.manifest for key in step.manifest.options}
    for key in settings:
        first, _, name = key.partition(".")
        if key == "image-archive" or (
            charts
            and (
                key in ("chart", "version")
                or (first in ("chart", "version") and name in _names(charts))
            )
        ):
            continue
        if key in options or (key == "manifest" and not charts):
            continue
        if key == "image" and (charts and charts[-1].image):
            continue
        if charts and key not in _OWN:
            continue  # a value of the chart: helm itself knows which there are
        known = sorted(
            options
            | ({"chart", "version", "image"} if charts else {"manifest"})
            | {"image-archive"}
        )
        raise UsageError(
            f"{profile.name}: --set {key} means nothing on Kubernetes",
            f"it takes: {', '.join(known)}" + (", the chart's values" if charts else ""),
        )


def images(objects: Sequence[Mapping[str, Any]]) -> list[str]:
    """The images of all containers, each once, in order. What an operator starts by itself is not
    among them.
    """
    found: dict[str, None] = {}
    for item in objects:
        for pod in _pod_specs(item):
            for container in _containers(pod):
                found[str(container["image"])] = None
    return list(found)


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


def substitute(value: Any, variables: Mapping[str, str]) -> Any:
    """``${name}`` filled in; where it is the whole text, it becomes true, false or a number if it
    looks like one.

    ``${?name}`` drops its key when empty; ``${random:20}`` is 20 random bytes in hexadecimal
    digits.
    """
    if isinstance(value, Mapping):
        return {
            key: substitute(item, variables)
            for key, item in value.items()
            if not _dropped(item, variables)
        }
    if isinstance(value, list | tuple):
        return [substitute(item, variables) for item in value if not _dropped(item, variables)]
    if not isinstance(value, str):
        return value
    text = _VARIABLE.sub(lambda match: _value(match[2], variables), value)
    if _VARIABLE.fullmatch(value):
        if text in ("true", "false"):
            return text == "true"
        if text.isdecimal():
            return int(text)
    return text


def _dropped(item: Any, variables: Mapping[str, str]) -> bool:
    match = _VARIABLE.fullmatch(item) if isinstance(item, str) else None
    return bool(match and match[1] and not _value(match[2], variables))


def _value(name: str, variables: Mapping[str, str]) -> str:
    kind, _, size = name.partition(":")
    if kind == "random":
        return secrets.token_hex(int(size or 16))
    return variables.get(name, "")


def _derived(variables: Mapping[str, str]) -> dict[str, str]:
    """Variables that follow from others."""
    registry = variables.get("registry", "").rstrip("/")
    return {
        "ipv6": "true" if variables.get("pod_cidr_ipv6") else "false",
        "registry_slash": registry + "/" if registry else "",
    }


def _names(charts: Sequence[Chart]) -> set[str]:
    return {chart.name for chart in charts}


def _namespace(chart: Chart) -> list[Object]:
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


def _chart(
    access: Access,
    chart: Chart,
    settings: Mapping[str, str],
    variables: Mapping[str, str],
    last: bool,
) -> list[Object]:
    """``helm template``; keys without a chart's name go to the last chart, which is the CNI's
    own.
    """

    def asked(key: str) -> str:
        return settings.get(f"{key}.{chart.name}") or (settings.get(key, "") if last else "")

    local = asked("chart")
    if local and not Path(local).exists():
        raise InputError(
            f"{local}: there is no such chart",
            "a chart is a folder with Chart.yaml, or a .tgz of it",
        )
    argv = [
        "template",
        chart.release or chart.name,
        local or chart.name,
        "--namespace",
        chart.namespace,
        "--include-crds",
        "--values",
        "-",
    ]
    argv += ["--kube-version", access.server_version]
    if not local:
        argv += ["--repo", chart.repository, "--version", asked("version") or chart.version]
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
    text = access.helm(*argv, timeout=_RENDERING, input=values).stdout
    found = list(_documents(text, f"the chart {chart.name}"))
    for item in found:  # what helm install does and helm template does not
        if item["kind"] in _NAMESPACED:
            item.setdefault("metadata", {}).setdefault("namespace", chart.namespace)
        for container in (
            one
            for pod in _pod_specs(item)
            for one in _containers(pod)
            if one["name"] in chart.privileged
        ):
            container["securityContext"] = {
                **(container.get("securityContext") or {}),
                "privileged": True,
            }
    return found


def _is_value(key: str) -> bool:
    return key not in _OWN and not key.startswith(("chart.", "version."))


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


def _manifest(
    manifest: Manifest, settings: Mapping[str, str], variables: Mapping[str, str]
) -> list[Object]:
    where = settings.get("manifest") or manifest.file
    if where:
        path = Path(where) if "/" in where else FOLDER / where
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"{path}: {getattr(error, 'strerror', None) or 'not UTF-8 text'}",
                "check the profile's or --set's manifest",
            ) from None
    else:
        where, text = manifest.url, _download(manifest)
    options = {
        key: _VARIABLE.sub(lambda match: _value(match[2], variables), settings.get(key, value))
        for key, value in manifest.options.items()
    }
    return [_filled(item, {**variables, **options}) for item in _documents(text, where)]


def _filled(value: Any, variables: Mapping[str, str]) -> Any:
    """In manifests everything that is filled in stays text."""
    if isinstance(value, dict):
        return {
            key: _filled(item, variables)
            for key, item in value.items()
            if not _dropped(item, variables)
        }
    if isinstance(value, list):
        return [_filled(item, variables) for item in value]
    return (
        _VARIABLE.sub(lambda match: _value(match[2], variables), value)
        if isinstance(value, str)
        else value
    )


def _download(manifest: Manifest) -> str:
    if not manifest.url.startswith("https://"):
        raise InputError(
            f"{manifest.url}: only https is fetched", "or name a file with --set manifest=PATH"
        )
    try:
        with urllib.request.urlopen(manifest.url, timeout=30) as answer:
            data = bytes(answer.read(_LARGEST + 1))
    except OSError as error:
        raise MissingError(
            f"{manifest.url} cannot be fetched: {error}",
            "fetch it elsewhere and name it with --set manifest=PATH",
        ) from None
    if hashlib.sha256(data).hexdigest() != manifest.sha256:
        raise InputError(
            f"{manifest.url}: it is not the file that the profile names (sha256 {manifest.sha256})",
            "has it been changed there?",
        )
    return data.decode("utf-8", "replace")


def _documents(text: str, where: str) -> Iterator[Object]:
    try:
        for item in yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if item is None:
                continue
            if not isinstance(item, dict) or not item.get("kind") or not item.get("apiVersion"):
                raise InputError(
                    f"{where}: something in it is no object of Kubernetes (no kind or apiVersion)",
                    "is this a manifest?",
                )
            yield from (item["items"] if item["kind"] == "List" else [item])
    except yaml.YAMLError as error:
        raise InputError(
            f"{where}: not YAML that can be read: {str(error).splitlines()[0]}",
            "is this a manifest?",
        ) from None


def _adapt(item: Object, registry: str, pull_secret: str) -> None:
    """Images from a mirror, with its secret, and our label on the Pods."""
    for pod in _pod_specs(item):
        if registry:
            for container in _containers(pod):
                container["image"] = mirrored(container["image"], registry)
        if pull_secret:
            pod["imagePullSecrets"] = [
                *(pod.get("imagePullSecrets") or ()),
                {"name": pull_secret.rpartition("/")[2]},
            ]


def mirrored(image: str, registry: str) -> str:
    """An image's name in a mirror that keeps all paths: quay.io/cilium/cilium:v1 is
    HOST/PATH/cilium/cilium:v1.
    """
    first, slash, rest = image.partition("/")
    path = rest if slash and ("." in first or ":" in first or first == "localhost") else image
    return f"{registry.rstrip('/')}/{path}"


def _pod_specs(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    spec = item.get("spec")
    if not isinstance(spec, dict):
        return []
    if item.get("kind") == "Pod":
        return [spec]
    if item.get("kind") == "CronJob":
        spec = spec.get("jobTemplate", {}).get("spec", {})
    pod = (
        (spec.get("template") or {}).get("spec")
        if item.get("kind") in ("DaemonSet", "Deployment", "StatefulSet", "Job", "CronJob")
        else None
    )
    return [pod] if isinstance(pod, dict) else []


def _containers(pod: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [one for key in ("initContainers", "containers") for one in pod.get(key) or ()]


def own(name: str) -> list[Object]:
    """A manifest of ours that takes no variables."""
    return list(_documents((FOLDER / name).read_text(encoding="utf-8"), name))
