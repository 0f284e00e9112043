"""The divisions, as MLPerf has them: closed, a shipped plan and shipped profiles, unchanged, so
that results of different testbeds are of the same measurement; open, anything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pydantic import ValidationError

from cnibench.model.profile import Profile, builtin
from cnibench.planning.plan import Plan
from cnibench.planning.plans import named, names
from cnibench.reports._escape import plain
from cnibench.reports.site.publication.pseudonyms import Pseudonyms
from cnibench.rundir.schema import Manifest

# Keys that say what is compared and where, not how it is measured.
_FREE = frozenset({"cni", "cluster", "seed"})
_VERSION = frozenset({"version", "sha256", "url"})  # of what installs a CNI


@dataclass(frozen=True)
class Division:
    """``plan`` is the name of the shipped plan that it is, or is nearest to; ``reasons`` say why it
    is not closed.
    """

    closed: bool
    plan: str
    reasons: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return "closed" if self.closed else "open"


def of(manifest: Manifest) -> Division:
    """The division of a run, judged by the plans and profiles of this cnibench."""
    try:
        asked = _keys(Plan.model_validate(manifest.plan))
    except ValidationError:
        return Division(False, "", ["its plan is not one of this version of cnibench"])
    differ = {
        name: [key for key, value in shipped.items() if asked.get(key) != value]
        for name, shipped in _shipped().items()
    }
    nearest = min(differ, key=lambda name: len(differ[name]))
    reasons = []
    if keys := differ[nearest]:
        reasons.append(
            f"its plan is none that cnibench ships (the nearest is '{nearest}', with another"
            f" {', '.join(keys)})"
        )
    if "max_rate" in manifest.extra:
        reasons.append("what Pods send was capped")
    changed = sorted(label for label in manifest.profiles if not _is_shipped(manifest, label))
    reasons += [f"the profile of {plain(label, 60)} is not a shipped one" for label in changed[:5]]
    return Division(not reasons, nearest, reasons)


def own_label(label: str, profile: Mapping[str, Any]) -> bool:
    """Is it that which the profile has without a name of the user's: its own, with one of several
    implementations of Services behind it?
    """
    name = str(profile.get("name") or label)
    return label in (name, f"{name}+{profile.get('proxy')}")


def _keys(plan: Plan) -> dict[str, Any]:
    found = plan.model_dump(mode="json", by_alias=True)
    return {key: value for key, value in found.items() if key not in _FREE}


@cache
def _shipped() -> dict[str, dict[str, Any]]:
    return {name: _keys(named(name)) for name in names()}


def _is_shipped(manifest: Manifest, label: str) -> bool:
    """Is the profile the shipped one of its name in what is measured: of a model its datapath, of a
    real CNI how it is installed, but for its version, which is what a board compares?
    """
    said = manifest.profiles[label]
    name = said.get("name")
    if not isinstance(name, str) or name not in builtin() or not own_label(label, said):
        return False
    try:
        profile = Profile.model_validate(said)  # fields that are newer than the run have defaults
    except ValidationError:
        return False
    return bool(
        _measured(profile, manifest.cluster) == _measured(builtin()[name], manifest.cluster)
    )


def _measured(profile: Profile, cluster: str) -> Any:
    lab = cluster == "lab" or cluster.startswith("ssh-lab:")
    part = profile.datapath if lab else profile.kubernetes
    # as a bundle has it: long texts on one line, and pseudonyms for what looks like an address
    found = Pseudonyms(True).walk(part.model_dump(mode="json", by_alias=True) if part else {})
    return found if lab else _without_versions(found.get("steps"))


def _without_versions(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: one for key, one in value.items() if key not in _VERSION}
        return {key: _without_versions(one) for key, one in kept.items()}
    return [_without_versions(one) for one in value] if isinstance(value, list) else value
