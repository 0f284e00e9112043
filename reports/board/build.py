"""Writes the board: an index with the ranking, a page for each bundle, the history of each testbed,
the bundles themselves.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cnibench import __version__
from cnibench.cpp import colors
from cnibench.errors import UsageError
from cnibench.model.cell import SCHEMA
from cnibench.model.units import plural
from cnibench.reports._escape import plain, script_json
from cnibench.reports._page import card, environment, flame
from cnibench.reports.board import entry, flames, history
from cnibench.reports.board.data import board_data
from cnibench.reports.board.entry import Entry
from cnibench.reports.board.repository import Found, Refusal, accepted
from cnibench.reports.bundle.container import LARGEST_FILE, SUFFIX, safe_name
from cnibench.reports.site.publication import folder as place
from cnibench.system.files import read_beneath

if TYPE_CHECKING:
    from jinja2 import Environment

_HERE = Path(__file__).parent / "templates"
_SITE = Path(__file__).parents[1] / "site" / "templates"
CARD = "Which CNI?"
_LONGEST = 4000  # characters of a string from a bundle on a page
_ASSETS = (
    _SITE / "site.css",
    _SITE / "tables.js",
    _HERE / "board.css",
    _HERE / "ranking.js",
    _HERE / "board.js",
)


def check(folder: Path) -> tuple[int, list[Refusal]]:
    """How many bundles of the repository are accepted, and what is refused; nothing is written."""
    found, refused = accepted(folder, lambda *_: None)
    return len(found), refused


def build(folder: Path, out: Path, *, force: bool = False, url: str = "") -> dict[str, Any]:
    """The board of the repository ``folder`` in the folder ``out``, in place of an older one there.
    ``url`` is where it will be published, '' where links to it need no picture.

    Returns {schema, out, bundles, testbeds, refused, pages, kept, bytes}. Raises UsageError and
    InputError as the site does.
    """
    place.check(out)
    if out.resolve() == folder.resolve() or any(out.glob(f"*{SUFFIX}")):
        raise UsageError(
            f"{out}: holds the results, and the board's own copies would be mistaken for bundles",
            "give --out another folder",
        )
    found, refused = accepted(folder, entry.of)
    with place.drafted(out) as draft:
        pages = _write(folder, found, refused, draft, url)
        runs = [one.verified.run for one in found]
        placed = place.place(draft, out, runs, force=force)
    return {
        "schema": SCHEMA,
        "out": str(out),
        "bundles": len(found),
        "testbeds": len({one.testbed for one in found}),
        "refused": [{"path": one.path, "reason": one.reason} for one in refused],
        "pages": pages,
        "kept": placed.kept,
        "bytes": placed.bytes,
    }


def _write(
    folder: Path, found: Sequence[Found], refused: Sequence[Refusal], draft: Path, url: str
) -> list[str]:
    for asset in _ASSETS:
        shutil.copyfile(asset, draft / asset.name)
    (draft / "bundles").mkdir()
    flame.assets(draft)
    entries: list[tuple[Found, Entry, str]] = []
    for one in found:
        assert isinstance(one.taken, Entry)
        entries.append((one, one.taken, _page(one)))
    entries.sort(key=lambda item: item[1].finished, reverse=True)
    script = script_json(board_data([(one, shown, page) for one, shown, page in entries]))
    (draft / "data.js").write_text(f"window.cnibenchBoard={script};\n", encoding="utf-8")
    said = _said(entries)
    if url:
        card.write(draft, CARD, said)
    common = {"version": __version__, "url": url, "card_says": f"{CARD} {said}"}
    pages = ["index.html"]
    histories = _histories(folder, entries, draft, common)
    pages += histories.values()
    index = _templates().get_template("board.html")
    (draft / "index.html").write_text(
        index.render(entries=entries, histories=histories, refused=refused, top="", **common),
        encoding="utf-8",
    )
    template = _templates().get_template("bundle.html")
    for one, shown, page in entries:
        pages += _flames(one, shown, page, draft, common)
        (draft / "bundles" / f"{page}.html").write_text(
            template.render(
                found=one, entry=shown, page=page, color=colors.color, top="../", **common
            ),
            encoding="utf-8",
        )
        content = read_beneath(folder, one.path, LARGEST_FILE)
        (draft / "bundles" / f"{page}{SUFFIX}").write_bytes(content)
        pages.append(f"bundles/{page}.html")
    return pages


def _said(entries: Sequence[tuple[Found, Entry, str]]) -> str:
    """What the board has, in a sentence, and whether that is models alone."""
    cnis = {name for _, shown, _ in entries for name in shown.cnis}
    testbeds = {found.testbed for found, _, _ in entries}
    kinds = {one.fidelity for _, shown, _ in entries for one in shown.cnis.values()}
    models = " These are models of the datapaths, not the CNIs themselves."
    return (
        f"{plural(len(cnis), 'CNI profile')} in {plural(len(entries), 'published run')} on"
        f" {plural(len(testbeds), 'testbed')}, ranked by what matters to you."
        + models
        * (kinds == {"datapath-model"})
    )


def _flames(
    one: Found, shown: Entry, page: str, draft: Path, common: Mapping[str, str]
) -> list[str]:
    """The pages of its flame graphs."""
    template = _templates().get_template("flame.html")
    written = []
    for number, row in enumerate(shown.cycles):
        if row.flame:
            name = f"bundles/{page}-{number}.html"
            graph = flames.unpacked(row.flame)
            (draft / name).write_text(
                template.render(flame=graph, found=one, page=page, top="../", **common),
                encoding="utf-8",
            )
            written.append(name)
    return written


def _histories(
    folder: Path,
    entries: Sequence[tuple[Found, Entry, str]],
    draft: Path,
    common: Mapping[str, str],
) -> dict[str, str]:
    """The page of each testbed with several runs, by its name."""
    testbeds: dict[str, list[tuple[Found, Entry, str]]] = {}
    for one, shown, page in entries:
        testbeds.setdefault(one.testbed, []).append((one, shown, page))
    several = {name: lots for name, lots in sorted(testbeds.items()) if len(lots) > 1}
    if several:
        (draft / "history").mkdir()
    template = _templates().get_template("history.html")
    written = {}
    for name, lots in several.items():
        written[name] = f"history/{name}.html"
        pages = {one.verified.run: page for one, _, page in lots}
        models = any(shown.models for _, shown, _ in lots)
        found = history.of(folder, [one for one, _, _ in lots])
        (draft / written[name]).write_text(
            template.render(one=found, models=models, pages=pages, top="../", **common),
            encoding="utf-8",
        )
    return written


def _page(one: Found) -> str:
    """The name of its page. No run is there twice; ids that are no names of files may become
    alike, and a hash distinguishes those.
    """
    name = safe_name(one.verified.run)
    rest = "" if name == one.verified.run else f"-{one.verified.sha256[:12]}"
    return f"{one.testbed}-{name}{rest}"


@cache
def _templates() -> Environment:
    return environment(_HERE, lambda _, value: plain(value, _LONGEST))
