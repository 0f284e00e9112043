"""Manifests read from files and URLs, with the cluster's variables and --set filled in."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from cnibench.clusters.kubernetes.cni import sources
from cnibench.clusters.kubernetes.cni.pod_specs import Object
from cnibench.clusters.kubernetes.cni.sources import Rendered
from cnibench.clusters.kubernetes.cni.variables import substitute
from cnibench.errors import InputError, MissingError
from cnibench.model.installation import Manifest

FOLDER = Path(__file__).parents[1] / "manifests"
_LARGEST = 4 * 1024 * 1024  # bytes of a manifest from elsewhere


def rendered(
    manifest: Manifest, settings: Mapping[str, str], variables: Mapping[str, str]
) -> Rendered:
    """The objects of a manifest; what is filled in stays text. Raises InputError, MissingError."""
    where = settings.get("manifest") or manifest.file
    if where:
        path = Path(where) if "/" in where else FOLDER / where
        name = path.name
        try:
            data = path.read_bytes()
            text = data.decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"{path}: {getattr(error, 'strerror', None) or 'not UTF-8 text'}",
                "check the profile's or --set's manifest",
            ) from None
    else:
        where = name = manifest.url
        data = _download(manifest)
        text = data.decode("utf-8", "replace")
    options = {
        key: substitute(settings.get(key, value), variables, typed=False)
        for key, value in manifest.options.items()
    }
    known = {**variables, **options}
    return Rendered(
        [substitute(item, known, typed=False) for item in documents(text, where)],
        {f"manifest {name}": sources.sha256(data)},
    )


def _download(manifest: Manifest) -> bytes:
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
    sources.check(manifest.url, sources.sha256(data), manifest.sha256)
    return data


def documents(text: str, where: str) -> Iterator[Object]:
    """Objects in YAML; ``where`` names the text in messages. Raises InputError."""
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
