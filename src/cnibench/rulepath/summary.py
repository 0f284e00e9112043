"""The rule paths of a run as rows, beside what a study published of the same profile and
placement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cnibench.claims.model import Study

_COUNTS = ("hooks", "chains", "rules", "matched")


def published(study: Study) -> dict[tuple[str, str], dict[str, float]]:
    """(profile, placement) to metric to the figure that the study's claims of kind ``value``
    give.
    """
    found: dict[tuple[str, str], dict[str, float]] = {}
    for claim in study.claims:
        if claim.kind == "value" and "rule-path" in claim.workload:
            for profile, figure in claim.published.items():
                found.setdefault((profile, claim.placement), {})[claim.metric] = figure
    return found


def rows(
    records: Iterable[Mapping[str, Any]], figures: Mapping[tuple[str, str], Mapping[str, float]]
) -> list[dict[str, Any]]:
    """One row for each label, placement, family and packet: the counts of the last block, whether
    all blocks agree, and the published ones.

    Counts do not scatter as times do: blocks that differ met different rules, which ``agree``
    tells.
    """
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for record in records:
        groups.setdefault(
            (record["label"], record["placement"], str(record["ip"]), record["packet"]), []
        ).append(record)
    found = []
    for (label, placement, ip, packet), members in groups.items():
        last = members[-1]
        counts = {name: last[name] for name in _COUNTS}
        published = dict(figures.get((last["profile"], placement), {}))
        found.append(
            {
                "label": label,
                "profile": last["profile"],
                "placement": placement,
                "ip": int(ip),
                "packet": packet,
                **counts,
                "published": published,
                "blocks": len(members),
                "agree": all(member["nodes"] == last["nodes"] for member in members),
                "nodes": last["nodes"],
            }
        )
    return sorted(
        found,
        key=lambda row: (
            row["placement"] != "intra",
            row["packet"] != "first",
            row["ip"],
            row["label"],
        ),
    )
