"""What each page shows: the values that the templates are filled with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cnibench.analysis.model import Failure
from cnibench.analysis.text.narrative import conditions, primary_groups
from cnibench.model import context
from cnibench.model.metrics import COUNTED
from cnibench.reports._document import Document, Section, Table, document
from cnibench.reports.site import figures, rules
from cnibench.reports.site.charts import Chart, Gallery, unique
from cnibench.reports.site.dataset import Material
from cnibench.reports.site.places import Place, place
from cnibench.reports.site.versus import Versus, pairs_of, versus

# places that the overview shows as cards and charts; the matrix and the workloads' pages have all
CARDS = 12
_COLUMNS = 30  # places that the matrix holds
_PLACES = 40  # places that a workload's page holds


@dataclass(frozen=True)
class Link:
    """A page: its file, its name in links, and what it is about."""

    file: str
    name: str
    about: str = ""


@dataclass(frozen=True)
class Filter:
    """A coordinate that visitors can filter by; ``options`` are (value, in words)."""

    name: str
    title: str
    options: list[tuple[str, str]]


@dataclass(frozen=True)
class PlaceView:
    """A place with its charts, as a section of a page; ``chart`` is its ranking."""

    place: Place
    chart: Chart
    anchor: str
    charts: list[Chart] = field(default_factory=list)
    rules: list[Table] = field(default_factory=list)


@dataclass(frozen=True)
class WorkloadPage:
    link: Link
    name: str
    views: list[PlaceView]
    sweeps: list[Chart]
    left_out: int


@dataclass(frozen=True)
class ProfilePage:
    link: Link
    label: str
    title: str
    features: list[tuple[str, str]]
    figures: Table
    cycles: Table | None
    attested: Table
    failed: list[str]
    leads: list[str]


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
        for one in context.PLACE:
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
    """Everything that can be shown of the material; what is missing is left out with a word where
    it would stand.
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
        _workload(
            material,
            gallery,
            name,
            sorted((one for one in places if one.group.workload == name), key=_order),
            taken,
        )
        for name in dict.fromkeys(one.group.workload for one in places)
    ]
    profiles = [_profile(material, label, places, taken) for label in _all_labels(material)]
    trends = (
        [gallery.add(chart, "trend", str(i)) for i, chart in enumerate(figures.trends(material))]
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
        trends,
        against,
        _lead(places, material.baselines),
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
    return Link(f"{file}.html", f"{a} or {b}", found.lead), found


def _named(one: Place, alike: Sequence[Place]) -> str:
    """The place's title, with those parameters in which places of its workload differ."""
    params = one.group.params
    own = [
        f"{key} {value}"
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


def _workload(
    material: Material, gallery: Gallery, name: str, places: Sequence[Place], taken: set[str]
) -> WorkloadPage:
    file = unique(f"workload-{name}", taken)
    taken.add(file)
    views = []
    for number, one in enumerate(places[:_PLACES]):
        words = (name, one.group.placement, str(number))
        made = [
            figures.cycles(material, one),
            rules.chart(material, one),
            *(make(material, one) for make in figures.MAKERS),
        ]
        charts = [
            gallery.add(chart, *words, kind)
            for kind, chart in zip(
                ("cpp", "rules", "latency", "percentiles", "time", "pods"), made, strict=True
            )
            if chart
        ]
        ranked = gallery.add(figures.ranking(one), *words)
        met = rules.rows(material, one)
        views.append(
            PlaceView(
                one,
                ranked,
                f"place-{number}",
                charts,
                [rules.table(met), rules.chains(met)] if met else [],
            )
        )
    sweeps = [
        gallery.add(chart, name, "sweep", str(i))
        for i, chart in enumerate(figures.sweeps(material, places))
    ]
    about = ", ".join(
        dict.fromkeys(context.coordinate("placement").words(one.group.placement) for one in places)
    )
    return WorkloadPage(
        Link(f"{file}.html", name, about), name, views, sweeps, max(0, len(places) - _PLACES)
    )


def _order(one: Place) -> tuple[Any, ...]:
    """Sweeps in the order of their numbers."""
    where = one.group
    values = [
        (isinstance(value, int | float), value if isinstance(value, int | float) else 0, str(value))
        for value in where.params.values()
    ]
    return where.environment, context.order(context.place(where)), values


def _profile(
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
        names = sorted(
            {name for item in mine for name in item.components},
            key=lambda name: -max(i.components.get(name, 0.0) for i in mine),
        )
        heads = ["component", *(f"{item.workload} {item.placement}" for item in mine)]
        lines = [
            [name, *(f"{item.components.get(name, 0.0):.1f}" for item in mine)] for name in names
        ]
        lines += [
            ["unclassified", *(f"{item.unclassified:.1f}" for item in mine)],
            ["total", *(f"{item.total:.0f}" for item in mine)],
        ]
        lines.append(["cycles", *(item.cycles_source for item in mine)])
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


def _lead(places: Sequence[Place], baselines: frozenset[str]) -> str:
    """The overview's first sentence."""
    places = [one for one in places if one.group.metric not in COUNTED] or list(
        places
    )  # rules are a reason, not a need
    decided = [one for one in places if one.answer.kind in ("decided", "tie")]
    if not places:
        return "Nothing was measured, so nothing can be recommended."
    if not decided:
        if any(one.answer.kind == "none" for one in places):
            return "The results do not support a recommendation; the reasons follow."
        return (
            "Not decided: no CNI is significantly different from the others in a way that helps"
            f" to choose.{_cost(places, baselines)}"
        )
    count: dict[str, int] = {}
    for one in decided:
        for label in one.answer.labels:
            count[label] = count.get(label, 0) + 1
    most = max(count.values())
    best = [label for label in count if count[label] == most]
    names = best[0] if len(best) == 1 else f"{', '.join(best[:-1])} and {best[-1]}"
    undecided = sum(one.answer.kind in ("open", "inconclusive") for one in places)
    verb, whole = ("is" if len(best) == 1 else "are each"), len(decided)
    where = (
        f"in {'all ' if most == whole else f'{most} of '}{whole} comparisons"
        if whole > 1
        else "in the one comparison"
    )
    text = f"{names} {verb} in the leading group {where} that could be decided."
    if undecided:
        text += f" {undecided} remain{'s' * (undecided == 1)} open."
    return f"{text}{_cost(places, baselines)}"


def _cost(places: Sequence[Place], baselines: frozenset[str]) -> str:
    """Who needs the fewest cycles most often: means over the blocks, without a test."""
    lots = [[row for row in one.cycles if row.label not in baselines] for one in places]
    lots = [rows for rows in lots if len(rows) > 1]
    if not lots:
        return ""
    least = [min(rows, key=lambda row: row.total).label for rows in lots]
    best = max(dict.fromkeys(least), key=least.count)
    estimated = any(row.cycles_source == "estimated" for rows in lots for row in rows)
    return (
        f" Fewest cycles per packet{' (estimated)' * estimated}: {best} in {least.count(best)} of"
        f" {len(lots)}, by the mean, not tested."
    )
