"""What certificates say of a model as it is here: which one counts, and whether it holds for this
kernel and this description of the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cnibench.certificates.format import Certificate


def standing(
    found: Iterable[Certificate], kernel: str, model: str, settings: Mapping[str, str]
) -> dict[str, Any]:
    """The one that fits best, as env.json has it; {} without any. Of several the one for this model
    and these settings of it counts before others, then the one for this kernel, then the newest.
    """

    def fits(one: Certificate) -> tuple[bool, bool, bool, str]:
        return one.settings == settings, one.model == model, one.kernel == kernel, one.date

    best = max(found, key=fits, default=None)
    if best is None:
        return {}
    same = dict(zip(("settings", "model", "kernel"), fits(best), strict=False))
    return {
        "agent": best.agent.name,
        "version": best.agent.version,
        "sha256": best.agent.sha256,
        "kernel": best.kernel,
        "date": best.date,
        "differences": len(best.differences),
        "other": [name for name, holds in same.items() if not holds],
    }


def words(one: Mapping[str, Any]) -> str:
    """A stored standing as the end of a sentence about a model; {}: it has no certificate."""
    if not one:
        return "not certified against the real agent"
    said = (
        f"certified against {one.get('agent')} {one.get('version')}:"
        f" {one.get('differences')} difference{'s' * (one.get('differences') != 1)}"
    )
    others = one.get("other")
    others = others if isinstance(others, list) else []
    reasons = [f"on another kernel, {one.get('kernel')}"] * ("kernel" in others)
    reasons += ["for another version of the model"] * ("model" in others)
    reasons += ["with other settings"] * ("settings" in others)
    return f"{said} ({' and '.join(reasons)})" if reasons else said
