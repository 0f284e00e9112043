"""Kubeconfig files: found and merged as kubectl does, and what in them is secret."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from cnibench.errors import InputError

_SECRET = (
    "token",
    "password",
    "client-key-data",
    "client-certificate-data",
    "id-token",
    "refresh-token",
    "client-secret",
    "access-token",
)


def read(kubeconfig: Path | None) -> dict[str, Any]:
    """All files as kubectl merges them: the first that sets a thing wins. Raises InputError."""
    merged: dict[str, Any] = {}
    for path in files(kubeconfig):
        try:
            part = yaml.safe_load(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(
                f"{path}: {error.strerror}",
                "name the kubeconfig with --kubeconfig FILE or in KUBECONFIG",
            ) from None
        except (yaml.YAMLError, UnicodeDecodeError):  # its text is not quoted: it may be a secret
            raise InputError(
                f"{path}: not YAML that can be read", "is this a kubeconfig?"
            ) from None
        if not isinstance(part, dict):
            raise InputError(f"{path}: expected a mapping", "is this a kubeconfig?")
        for key, value in part.items():
            if isinstance(value, list):
                merged[key] = [*(merged.get(key) or ()), *value]
            else:
                merged[key] = merged.get(key) or value
    return merged


def secrets(value: Any) -> set[str]:
    """Everything in a kubeconfig that is secret."""
    found: set[str] = set()
    if isinstance(value, dict):
        for key, item in value.items():
            if key in _SECRET and isinstance(item, str) and len(item) > 3:
                found.add(item)
            else:
                found |= secrets(item)
            if key == "env" and isinstance(item, list):  # of an exec plugin
                found |= {
                    str(one["value"])
                    for one in item
                    if isinstance(one, dict) and len(str(one.get("value", ""))) > 7
                }
    elif isinstance(value, list):
        for item in value:
            found |= secrets(item)
    return found


def user(config: Mapping[str, Any], context: str) -> Mapping[str, Any]:
    """The user of a context, as the kubeconfig has it; nothing where there is none."""
    name = next(
        (
            (one.get("context") or {}).get("user")
            for one in config.get("contexts") or ()
            if one.get("name") == context
        ),
        None,
    )
    for one in config.get("users") or ():
        if one.get("name") == name:
            return dict(one.get("user") or {})
    return {}


def files(kubeconfig: Path | None) -> list[Path]:
    """Those that kubectl would read; the last one need not exist. Where KUBECONFIG names none that
    exists, it is not ~/.kube/config: that may be another cluster.
    """
    if kubeconfig is not None:
        return [kubeconfig]
    named = [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    found = [path for path in named if path.exists()]
    return found or named[-1:] or [Path.home() / ".kube" / "config"]
