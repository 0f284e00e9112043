"""The verdicts on the published claims, study by study, as rows of text."""

from __future__ import annotations

from dataclasses import dataclass

from cnibench.model.units import human
from cnibench.reports.site.dataset import Material

WORDS = {
    "holds": "holds here",
    "does-not-hold": "does not hold here",
    "inconclusive": "inconclusive",
    "by-construction": "true by construction",
    "not-testable-here": "not testable here",
    "not-measured": "not measured",
}
_TESTED = ("holds", "does-not-hold", "inconclusive", "by-construction")


@dataclass(frozen=True)
class Verdict:
    """One claim: what was published, what was measured, and what follows."""

    id: str
    source: str
    sentence: str
    verdict: str
    words: str
    reason: str
    published: str
    figures: list[tuple[str, str, str]]
    contradicts: str

    @property
    def tested(self) -> bool:
        """Did this run have what decides about it?"""
        return self.verdict in _TESTED


def verdicts(material: Material) -> dict[str, list[Verdict]]:
    """Study to its verdicts, those with a verdict first, as are the studies; empty where nothing
    was measured at all.
    """
    from cnibench.claims import evaluate

    if not material.analysis.results:
        return {}
    found: dict[str, list[Verdict]] = {}
    for one in evaluate(material.analysis):
        figures = []
        for figure in one.figures:
            ours = "-" if figure.ours is None else human(figure.ours, figure.unit)
            if figure.ci_low is not None and figure.ci_high is not None:
                ours += (
                    f" ({human(figure.ci_low, figure.unit)} to"
                    f" {human(figure.ci_high, figure.unit)}, n={figure.n})"
                )
            figures.append(
                (
                    figure.what,
                    "-" if figure.published is None else human(figure.published, figure.unit),
                    ours,
                )
            )
        found.setdefault(one.study, []).append(
            Verdict(
                one.id,
                one.source,
                one.sentence,
                one.verdict,
                WORDS.get(one.verdict, one.verdict),
                one.reason,
                one.published,
                figures,
                ", ".join(one.contradicts),
            )
        )
    order = list(WORDS)
    place = {study: sum(row.tested for row in rows) for study, rows in found.items()}
    return {
        study: sorted(
            found[study], key=lambda row: order.index(row.verdict) if row.verdict in order else 99
        )
        for study in sorted(found, key=lambda study: -place[study])
    }
