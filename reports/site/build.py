"""Writes the site: into a draft beside the wanted folder, from where its files are put in place
when all of them are there.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cnibench.model.cell import SCHEMA
from cnibench.reports._page import card, environment, flame
from cnibench.reports.site import data
from cnibench.reports.site.dataset import Material, material
from cnibench.reports.site.figures import flames
from cnibench.reports.site.figures.charts import Gallery, library, picture
from cnibench.reports.site.pages import offload
from cnibench.reports.site.pages.overview import Pages, pages
from cnibench.reports.site.pages.profile_page import FEATURES, features
from cnibench.reports.site.pages.verdicts import verdicts
from cnibench.reports.site.pages.views import Link
from cnibench.reports.site.publication import folder
from cnibench.rundir.reader import RunReader

if TYPE_CHECKING:
    from jinja2 import Environment

_HERE = Path(__file__).parent / "templates"
_ASSETS = ("site.css", "site.js", "pairs.js", "tables.js")
CARD = "Which CNI for me?"


def build(
    readers: Sequence[RunReader],
    out: Path,
    *,
    raw: bool = False,
    allow_different: bool = False,
    baseline: str = "",
    force: bool = False,
    url: str = "",
) -> dict[str, Any]:
    """The site of these runs in the folder ``out``, in place of an older one there; whatever else
    is in the folder stays.

    Without ``raw`` names and addresses are replaced by pseudonyms and raw data left out. ``force``
    replaces edited and foreign files, too. ``url`` is where the site will be published, '' where
    links to it need no picture. Returns {schema, out, pages, charts, flames, kept, removed, bytes}.
    Raises UsageError, InputError.
    """
    folder.check(out)
    found = material(readers, raw=raw, allow_different=allow_different, baseline=baseline)
    with folder.drafted(out) as draft:
        written = _write(found, draft, url)
        placed = folder.place(draft, out, [run.id for run in found.runs], force=force)
    changes = {"kept": placed.kept, "removed": placed.removed, "bytes": placed.bytes}
    return {"schema": SCHEMA, "out": str(out), **written, **changes}


def _write(found: Material, out: Path, url: str) -> dict[str, Any]:
    shown = pages(found)
    for name in _ASSETS:
        shutil.copyfile(_HERE / name, out / name)
    data.write(found, out)
    models = {one.label for one in found.analysis.results if one.fidelity == "datapath-model"}
    drawn, problems = flames.drawn(found.readers, found.analysis.baseline, found.names, models)
    if drawn:
        (out / flames.FOLDER).mkdir()
        flame.assets(out)
    files = _pages(shown, drawn, problems, out, url)
    if url:
        card.write(out, CARD, *map(found.names.text, (shown.lead, shown.models())))
    _pictures(shown.gallery, out)
    return {"pages": files, "charts": len(shown.gallery.charts), "flames": len(drawn)}


def _pictures(gallery: Gallery, out: Path) -> None:
    if not gallery.charts:
        return
    (out / "charts").mkdir()
    (out / "vega.js").write_text(library(), encoding="utf-8")
    for chart in (one for one in gallery.charts.values() if one.pictured):
        text, bitmap = picture(chart)
        (out / chart.file).write_text(text, encoding="utf-8")
        (out / chart.bitmap).write_bytes(bitmap)


@cache
def _templates() -> Environment:
    """Compiled once for all sites of a process: what depends on a site comes with its context."""
    return environment(_HERE, lambda context, value: context["material"].names.text(value))


def _pages(
    shown: Pages, drawn: list[flames.Flame], problems: list[str], out: Path, url: str
) -> list[str]:
    from markupsafe import escape

    claims = verdicts(shown.material)
    nav = [
        Link("index.html", "Overview"),
        Link("features.html", "Features"),
        Link("method.html", "Method and data"),
    ]
    offloads = offload.views(shown.material)
    nav += [Link("offload.html", "Offloads")] * bool(offloads)
    nav += [Link("claims.html", "Published claims")] * bool(claims) + [
        Link("trend.html", "Over time")
    ] * bool(shown.trends)
    common = {
        "top": "",
        "site": shown,
        "material": shown.material,
        "nav": nav,
        "flames": drawn,
        "problems": problems,
        "claims": claims,
        "url": escape(url),  # names of machines in it are no pseudonyms
        "card_says": f"{CARD} {shown.lead} {shown.models()}",
    }
    links = {one.label: one.link for one in shown.profiles}
    written = []

    def page(file: str, template: str, **more: Any) -> None:
        text = _templates().get_template(template).render({**common, "here": file, **more})
        (out / file).write_text(text, encoding="utf-8", errors="replace")
        written.append(file)

    page("index.html", "index.html")
    for workload in shown.workloads:
        page(
            workload.link.file,
            "workload.html",
            page=workload,
            drawn=[one for one in drawn if one.workload == workload.name],
        )
    for profile in shown.profiles:
        against = [(link, one) for link, one in shown.versus if profile.label in (one.a, one.b)]
        page(
            profile.link.file,
            "profile.html",
            page=profile,
            drawn=[one for one in drawn if one.label == profile.label],
            versus=against,
        )
    for link, pair in shown.versus:
        both = [one for one in drawn if one.label in (pair.a, pair.b)]
        page(link.file, "versus.html", page=pair, links=links, drawn=both)
    for one in drawn:
        page(one.file, "flame.html", flame=one.page, top="../")
    page("features.html", "features.html", heads=FEATURES, rows=_features(shown))
    downloads = data.downloads(shown.material, out)
    page("method.html", "method.html", runs=_runs(shown), downloads=downloads)
    if offloads:
        page("offload.html", "offload.html", offloads=offloads)
    if claims:
        page("claims.html", "claims.html")
    if shown.trends:
        page("trend.html", "trend.html")
    return written


def _features(shown: Pages) -> list[tuple[Link, list[str]]]:
    return [
        (page.link, [value for _, value in features(shown.material.profiles.get(page.label) or {})])
        for page in shown.profiles
    ]


def _runs(shown: Pages) -> list[dict[str, Any]]:
    titles = (
        "Attestations",
        "Failed and unsupported",
        "Disturbed samples",
        "Notes",
        "Run and environment",
    )
    return [
        {
            "run": run,
            "sections": [
                section for title in titles if (section := shown.section(title, number)) is not None
            ],
        }
        for number, run in enumerate(shown.material.runs)
    ]
