"""Which version of a real CNI a run measured: the board compares versions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cnibench.reports._escape import plain

_LONGEST = 40  # characters
_OURS = ("chart ", "manifest ")  # what env.json names of what we installed
# The end of the title of a CNI that was there: '(cilium:v1.16.3; the profile follows 1.20.2)', or
# '(v1.34.1+k3s1)' of one in the node's own program.
_RECOGNISED = re.compile(r"\((?:[^()\s@]*:|(?=v\d))([^()\s:;@]+)(?:;[^()]*)?\)$")


def version(
    label: str, profile: Mapping[str, Any], plan: Mapping[str, Any], installed: Mapping[str, Any]
) -> str:
    """Of the chart or image that was installed, or that was found on the cluster; '' where the run
    does not say. ``profile`` and ``plan`` are those of plan.json, ``installed`` is that of
    env.json. None of them is trusted.
    """
    known = installed.get(label)
    names = [str(name) for name in _dict(known)]
    if isinstance(known, Mapping) and not any(name.startswith(_OURS) for name in names):
        found = _RECOGNISED.search(str(profile.get("title") or ""))
        return plain(found[1], _LONGEST) if found else ""
    settings = _settings(label, plan)
    for step in reversed(_list(_dict(profile.get("kubernetes")).get("steps"))):
        chart, manifest = (_dict(_dict(step).get(kind)) for kind in ("chart", "manifest"))
        if chart:
            return plain(_of_chart(chart, names, settings), _LONGEST)
        if manifest:
            return plain(_of_manifest(manifest, settings), _LONGEST)
    return ""


def _of_chart(chart: Mapping[str, Any], names: list[str], settings: Mapping[str, Any]) -> str:
    """Also of one of the user's own, which has no version that we know: it is rendered from a path,
    and ``names`` has it without one.
    """
    begin = f"chart {chart.get('name')}"
    there = next((name for name in names if name == begin or name.startswith(f"{begin} ")), None)
    shown = str(chart.get("version") or "") if there is None else there[len(begin) + 1 :]
    if image := str(settings.get("image") or ""):
        shown = f"{shown} with {image.rpartition('/')[2]}".lstrip()
    return shown


def _of_manifest(manifest: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    if settings.get("manifest"):
        return ""
    image = settings.get("image") or _dict(manifest.get("options")).get("image") or ""
    _, tagged, tag = str(image).rpartition(":")
    found = re.search(r"/(v?\d+(?:\.\d+)+)/", str(manifest.get("url") or ""))
    return tag if tagged else found[1] if found else ""


def _settings(label: str, plan: Mapping[str, Any]) -> dict[str, Any]:
    given = _dict(plan.get("settings"))
    return {**_dict(given.get("")), **_dict(given.get(label))}


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
