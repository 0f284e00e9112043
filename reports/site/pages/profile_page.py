"""The page of one profile: its features, figures, cycles, attestations and failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cnibench.analysis.model import Failure
from cnibench.cpp.colors import grouped
from cnibench.reports.document.parts import Table
from cnibench.reports.site.dataset import Material
from cnibench.reports.site.figures.charts import unique
from cnibench.reports.site.pages.views import Link, ProfilePage
from cnibench.reports.site.places import FAILED_OFTEN, Place

FEATURES = (
    "CNI",
    "network",
    "between nodes",
    "encapsulation",
    "policy",
    "encryption",
    "IP",
    "default MTU",
    "more",
)


def profile_page(
    material: Material, label: str, places: Sequence[Place], taken: set[str]
) -> ProfilePage:
    file = unique(f"profile-{label}", taken)
    taken.add(file)
    analysis = material.analysis
    rows = []
    for one in places:
        row = next((row for row in one.rows if row.label == label), None)
        if row is not None:
            percent = f"{100 * row.relative:.1f} %" + (" (the best)" if row is one.rows[0] else "")
            if row.position == FAILED_OFTEN:
                percent = "not ranked"
            name = f"{one.title}: {one.metric}" + (f" ({one.params})" if one.params else "")
            rows.append(
                [
                    name,
                    row.shown,
                    row.interval,
                    str(row.result.n),
                    percent,
                    row.position,
                    row.cycles or "-",
                ]
            )
    known = {(item.workload, item.placement) for item in analysis.cpp if item.label == label}
    table = None
    if known:
        mine = [item for item in analysis.cpp if item.label == label]
        parts = [grouped(item.components, item.unclassified) for item in mine]
        names = sorted(
            {name for own in parts for name in own},
            key=lambda name: (-max(own.get(name, 0.0) for own in parts), name),
        )
        heads = ["component", *(f"{item.workload} {item.placement}" for item in mine)]
        lines = [[name, *(f"{own.get(name, 0.0):.1f}" for own in parts)] for name in names]
        lines += [
            ["total", *(f"{item.total:.0f}" for item in mine)],
            ["cycles", *(item.cycles_source for item in mine)],
        ]
        table = Table(heads, lines)
    checks = [
        [
            c.check + ("" if c.ip == 4 else f" (IPv{c.ip})"),
            c.expected,
            c.observed,
            "yes" if c.passed else "NO",
        ]
        for c in analysis.attestations
        if c.label == label
    ]
    profile = material.profiles.get(label) or {}
    leads = [
        one.title
        for one in places
        if label in one.answer.labels and one.answer.kind in ("decided", "tie")
    ]
    title = str(profile.get("title") or label)
    about = "; ".join(
        filter(None, (title if title != label else "", f"leads in {len(leads)}" if leads else ""))
    )
    return ProfilePage(
        Link(f"{file}.html", label, about),
        label,
        title,
        features(profile),
        Table(
            [
                "where",
                "median",
                "interval",
                "blocks",
                "of the best",
                "position",
                "cycles per packet",
            ],
            rows,
            False,
        ),
        table,
        Table(["check", "expected", "observed", "passed"], checks, False),
        failures([f for f in analysis.failures if f.label == label]),
        leads,
    )


def features(profile: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a profile says of itself, by FEATURES; '-' for what it does not say."""
    own = profile.get("features") if isinstance(profile.get("features"), Mapping) else {}
    path = profile.get("datapath") if isinstance(profile.get("datapath"), Mapping) else {}
    assert isinstance(own, Mapping)
    assert isinstance(path, Mapping)
    policy = own.get("policy") if isinstance(own.get("policy"), Mapping) else None
    said = ""
    if policy is not None:
        ways = " and ".join(word for word in ("ingress", "egress") if policy.get(word))
        said = (
            f"{ways} {'/'.join(map(str, policy.get('layers') or ()))}".strip()
            if policy.get("kubernetes")
            else "none"
        )
    encapsulation = path.get("encapsulation") or ", ".join(map(str, own.get("tunnels") or ()))
    values = (
        profile.get("cni"),
        own.get("network_model"),
        own.get("mode"),
        encapsulation,
        said,
        (own.get("encryption") or "none") if own else "",
        "/".join(map(str, own.get("ip") or ())),
        own.get("default_mtu"),
        "; ".join(map(str, own.get("extra") or ())),
    )
    return [
        (name, str(value) if value not in (None, "") else "-")
        for name, value in zip(FEATURES, values, strict=True)
    ]


def failures(found: Sequence[Failure]) -> list[str]:
    """Failures in words, alike ones counted together."""
    counted: dict[tuple[str, str, str], int] = {}
    for item in found:
        key = (f"{item.workload} {item.placement}".strip(), item.status, item.reason)
        counted[key] = counted.get(key, 0) + 1
    return [
        f"{f'{where}: ' if where else ''}{status}{f' ({n} samples)' if n > 1 else ''}: {reason}"
        for (where, status, reason), n in counted.items()
    ]
