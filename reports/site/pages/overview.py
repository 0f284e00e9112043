"""All pages of the site but the claims and the data, and what the overview shows of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from cnibench.analysis.text.narrative import conditions, primary_groups
from cnibench.model.coordinates import PLACE
from cnibench.reports.document.build import document
from cnibench.reports.document.parts import Document, Section, text_of
from cnibench.reports.site.dataset import Material
from cnibench.reports.site.figures import trends
from cnibench.reports.site.figures.charts import Chart, Gallery, unique
from cnibench.reports.site.pages.headline import headline
from cnibench.reports.site.pages.profile_page import features, profile_page
from cnibench.reports.site.pages.versus import Versus, pairs_of, versus
from cnibench.reports.site.pages.views import Filter, Link, PlaceView, ProfilePage, WorkloadPage
from cnibench.reports.site.pages.workload_page import sweep_order, workload_page
from cnibench.reports.site.places import Place, place

# places that the overview shows as cards and charts; the matrix and the workloads' pages have all
CARDS = 12
_COLUMNS = 30  # places that the matrix holds


@dataclass
class Pages:
    """All of the site but the claims and the data."""

    material: Material
    gallery: Gallery
    whole: Document
    conditions: list[str]
    workloads: list[WorkloadPage]
    profiles: list[ProfilePage]
    trends: list[Chart]
    versus: list[tuple[Link, Versus]]
    lead: str

    def models(self, *labels: str) -> str:
        """Says which of the profiles, by default of all, are models; '' where none is."""
        fidelity = {one.label: one.fidelity for one in self.material.analysis.results}
        cnis = [one for one in labels or fidelity if fidelity.get(one, "baseline") != "baseline"]
        found = [one for one in cnis if fidelity[one] == "datapath-model"]
        if not found:
            return ""
        if len(found) == 1:
            return f"{found[0]} is a model of the datapath, not the CNI itself."
        who = "These" if found == cnis else ", ".join(found)
        return f"{who} are models of the datapaths, not the CNIs themselves."

    def conditions_of(self, *labels: str) -> list[str]:
        """``conditions`` of a page of these profiles, which says nothing of other models."""
        analysis = self.material.analysis
        own = [one for one in analysis.results if one.label in labels]
        return conditions(msgspec.structs.replace(analysis, results=own))

    @property
    def views(self) -> list[PlaceView]:
        return [view for page in self.workloads for view in page.views]

    @property
    def cards(self) -> list[PlaceView]:
        """Those that the overview shows: workloads and placements in turn, so that a sweep does not
        push the others out.
        """
        lots = [
            [view for view in page.views if view.place.group.placement == placement]
            for page in self.workloads
            for placement in dict.fromkeys(view.place.group.placement for view in page.views)
        ]
        found: list[PlaceView] = []
        for i in range(max((len(lot) for lot in lots), default=0)):
            found += [lot[i] for lot in lots if i < len(lot)]
        chosen = found[:CARDS]
        return [view for view in self.views if view in chosen]

    @property
    def filters(self) -> list[Filter]:
        """Placement and workload, and each further coordinate in which the places differ."""
        groups = [view.place.group for view in self.views]
        found = []
        for one in PLACE:
            values = (
                sorted({getattr(group, one.name) for group in groups}, key=one.rank)
                if one.name != "params"
                else []
            )
            if len(values) > 1 or one.name in ("placement", "workload"):
                found.append(
                    Filter(
                        one.name,
                        one.title[:1].upper() + one.title[1:],
                        [(str(value), one.words(value)) for value in values],
                    )
                )
        environments = sorted({group.environment for group in groups})
        if len(environments) > 1:
            found.append(
                Filter(
                    "environment",
                    "Environment",
                    [(str(number), str(number + 1)) for number in environments],
                )
            )
        return found

    @property
    def columns(self) -> list[PlaceView]:
        return self.views[:_COLUMNS]

    @property
    def labels(self) -> list[str]:
        """The profiles by how often they lead, then as they were named."""
        leads = {page.label: len(page.leads) for page in self.profiles}
        base = {
            row.label
            for view in self.views
            for row in view.place.rows
            if row.position == "baseline, no CNI"
        }
        return sorted(
            self.material.analysis.labels, key=lambda label: (label in base, -leads.get(label, 0))
        )

    def cell(self, view: PlaceView, label: str) -> Any:
        return next((row for row in view.place.rows if row.label == label), None)

    def section(self, title: str, number: int) -> Section | None:
        """A section of a run's own report, by its title."""
        own = document(self.material.runs[number].alone, whole=True)
        return next((section for section in own.sections if section.title == title), None)


def pages(material: Material) -> Pages:
    """Everything that can be shown of the material; what is missing is left out and said so in its
    place.
    """
    analysis, gallery = material.analysis, Gallery()
    whole = document(analysis, whole=True)
    groups = primary_groups(analysis)
    places = [
        place(analysis, group, section, material.baselines)
        for group, section in zip(groups, whole.sections[: len(groups)], strict=True)
    ]
    places = [
        replace(
            one,
            title=_named(
                one, [other for other in places if other.group.workload == one.group.workload]
            ),
        )
        for one in places
    ]
    taken: set[str] = set()
    workloads = [
        workload_page(
            material,
            gallery,
            name,
            sorted((one for one in places if one.group.workload == name), key=sweep_order),
            taken,
        )
        for name in dict.fromkeys(one.group.workload for one in places)
    ]
    profiles = [profile_page(material, label, places, taken) for label in _all_labels(material)]
    over_time = (
        [gallery.add(chart, "trend", str(i)) for i, chart in enumerate(trends.charts(material))]
        if material.several
        else []
    )
    against = [
        _versus(material, gallery, places, a, b, taken)
        for a, b in pairs_of(analysis.labels, places)
    ]
    return Pages(
        material,
        gallery,
        whole,
        conditions(analysis),
        workloads,
        profiles,
        over_time,
        against,
        headline(places),
    )


def _versus(
    material: Material, gallery: Gallery, places: Sequence[Place], a: str, b: str, taken: set[str]
) -> tuple[Link, Versus]:
    file = unique(f"versus-{a}-{b}", taken)
    taken.add(file)
    one, other = (features(material.profiles.get(label) or {}) for label in (a, b))
    found = versus(
        material, places, a, b, [(name, x, y) for (name, x), (_, y) in zip(one, other, strict=True)]
    )
    if found.chart is not None:
        found = replace(found, chart=gallery.add(found.chart, "versus", a, b))
    steps = [
        replace(step, chart=gallery.add(step.chart, "steps", a, b, str(number)))
        for number, step in enumerate(found.steps)
    ]
    found = replace(found, steps=steps)
    return Link(f"{file}.html", f"{a} or {b}", found.lead), found


def _named(one: Place, alike: Sequence[Place]) -> str:
    """The place's title, with those parameters in which places of its workload differ."""
    params = one.group.params
    own = [
        f"{key} {text_of(value)}"
        for key, value in params.items()
        if len({str(other.group.params.get(key)) for other in alike}) > 1
    ]
    return ", ".join([one.title, *own])


def _all_labels(material: Material) -> list[str]:
    """Those that were measured, then those that were asked for and gave no figure."""
    return list(
        dict.fromkeys(
            [
                *material.analysis.labels,
                *material.profiles,
                *(item.label for item in material.analysis.failures),
            ]
        )
    )
