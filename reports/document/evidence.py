"""The sections that say how far the figures can be trusted: what was attested, what failed, what
was disturbed.
"""

from __future__ import annotations

from cnibench.analysis.model import Analysis, Failure
from cnibench.analysis.text.notes.disturbances import rows
from cnibench.reports.document.parts import Section, Table


def attested(analysis: Analysis, whole: bool) -> list[Section]:
    """Every check where ``whole``; else how many passed for each profile, and each that did not."""
    if not analysis.attestations:
        return [
            Section(
                "Attestations",
                lines=["none: nothing proves that the datapaths are what the profiles claim"],
            )
        ]
    table = []
    if whole:
        heads = ["profile", "check", "expected", "observed", "passed"]
        table += [
            [
                item.label,
                _check(item.check, item.ip),
                item.expected,
                item.observed,
                "yes" if item.passed else "NO",
            ]
            for item in analysis.attestations
        ]
        return [Section("Attestations", [Table(heads, table, numbers=False)])]
    labels = dict.fromkeys(item.label for item in analysis.attestations)
    lines = []
    for label in labels:
        mine = [item for item in analysis.attestations if item.label == label]
        passed = sum(item.passed for item in mine)
        table.append(
            [
                label,
                f"{passed} of {len(mine)}",
                ", ".join(dict.fromkeys(item.check for item in mine if item.passed)),
            ]
        )
        lines += [
            f"{label}: {item.check}: expected {item.expected}, observed {item.observed}"
            for item in mine
            if not item.passed
        ]
    return [
        Section(
            "Attestations", [Table(["profile", "passed", "checks"], table, numbers=False)], lines
        )
    ]


def _check(check: str, ip: int) -> str:
    return check if ip == 4 else f"{check} (IPv{ip})"


def failed(analysis: Analysis) -> list[Section]:
    """Samples without a figure, and profiles that were not measured, by reason."""
    if not analysis.failures:
        return []
    found: dict[tuple[str, str, str, str, str], list[Failure]] = {}
    for item in analysis.failures:
        found.setdefault(
            (item.label, item.placement, item.workload, item.status, item.reason), []
        ).append(item)
    rows = []
    for (label, placement, workload, status, reason), items in found.items():
        where = f"{workload} {placement}".strip() or "everything"
        rows.append([label, where, "-" if items[0].block < 0 else str(len(items)), status, reason])
    return [
        Section(
            "Failed and unsupported",
            [Table(["profile", "where", "samples", "status", "reason"], rows, numbers=False)],
        )
    ]


def disturbed(analysis: Analysis) -> list[Section]:
    """Samples that were stored and are not used, by reason."""
    if not analysis.disturbed:
        return []
    lines = [
        "a process or CPU stalled while they were measured; they are stored, but no figure, verdict"
        " or ranking above includes them"
    ]
    return [
        Section(
            "Disturbed samples",
            [
                Table(
                    ["profile", "where", "block", "reason"], rows(analysis.disturbed), numbers=False
                )
            ],
            lines,
        )
    ]
