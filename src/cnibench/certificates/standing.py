"""What certificates say of a model as it is here: which one counts, and whether it holds for this
kernel and this description of the model.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from cnibench.certificates.format import Certificate, Rate

_ALIKE = 0.05  # of a rate: a difference that is proven to be larger is said with the certificate


def standing(
    found: Iterable[Certificate],
    kernel: str,
    model: str,
    settings: Mapping[str, str],
    ip: Collection[int] = (4,),
) -> dict[str, Any]:
    """The one that fits best, as env.json has it; {} without any. What counts before the rest is
    what comes first in ``fits``, and of several that fit alike the newest counts.
    """

    def fits(one: Certificate) -> dict[str, bool]:
        return {
            "settings": one.settings == settings,
            "model": one.model == model,
            "ip": set(ip) <= set(one.ip),
            "packets": bool(one.packets),
            "kernel": one.kernel == kernel,
        }

    best = max(found, key=lambda one: (*fits(one).values(), one.date), default=None)
    if best is None:
        return {}
    return {
        "agent": best.agent.name,
        "version": best.agent.version,
        "sha256": best.agent.sha256,
        "kernel": best.kernel,
        "ip": list(best.ip),
        "date": best.date,
        "differences": len(best.differences),
        "rates": [said for rate in best.rates if (said := _unlike(rate))],
        "other": [name for name, holds in fits(best).items() if not holds],
    }


def _unlike(rate: Rate) -> str:
    """In words, where the agent's rate is not the model's; '' where it may be."""
    if rate.ratio is None or rate.ci_low is None or rate.ci_high is None:
        return ""
    if rate.ci_low <= 1 + _ALIKE and rate.ci_high >= 1 - _ALIKE:
        return ""
    figures = f"{rate.ratio:.2f} [{rate.ci_low:.2f}, {rate.ci_high:.2f}]"
    return f"{rate.workload} {rate.placement}: the agent has {figures} of the model's rate"


def words(one: Mapping[str, Any]) -> str:
    """A stored standing as the end of a sentence about a model; {}: it has no certificate."""
    if not one:
        return "not certified against the real agent"
    said = (
        f"certified against {one.get('agent')} {one.get('version')}:"
        f" {one.get('differences')} difference{'s' * (one.get('differences') != 1)}"
    )
    rates = one.get("rates")
    said += "".join(f"; {rate}" for rate in (rates if isinstance(rates, list) else []))
    others = one.get("other")
    others = others if isinstance(others, list) else []
    ip = one.get("ip")
    families = ip if isinstance(ip, list) else []
    reasons = [f"on another kernel, {one.get('kernel')}"] * ("kernel" in others)
    reasons += ["for another version of the model"] * ("model" in others)
    reasons += ["with other settings"] * ("settings" in others)
    reasons += [f"over IPv{' and IPv'.join(map(str, families))} alone"] * ("ip" in others)
    reasons += ["without the rules that packets meet"] * ("packets" in others)
    return f"{said} ({' and '.join(reasons)})" if reasons else said
