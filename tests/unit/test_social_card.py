"""What a link to the site or the board shows in a chat or a post."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from cnibench.reports._page.card import drawn
from cnibench.reports.board.build import build as board
from cnibench.reports.bundle.making import bundle
from cnibench.reports.site.build import build as site
from cnibench.rundir.reader import RunReader
from tests.unit._bundles import stored
from tests.unit._call import call
from tests.unit._site import Page

URL = "https://example.org/results/"
SIZE = (1200, 630)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunReader:
    truth = {"flannel": 1.0, "cilium": 1.2}
    return stored(tmp_path_factory.mktemp("card") / "run", truth, workloads=("tcp-rr",))


def tags(page: Path) -> dict[str, Any]:
    found = [tag for kind, tag in Page(page).tags if kind == "meta"]
    return {tag.get("property") or tag.get("name"): tag.get("content") for tag in found}


def size(picture: Path) -> tuple[int, ...]:
    """Of a PNG: its header follows the signature and the chunk's head."""
    return struct.unpack_from(">II", picture.read_bytes(), 16)


def test_links_to_a_site_with_an_address_have_a_picture(run: RunReader, tmp_path: Path) -> None:
    done = call(["site", str(run.path), "--out", str(tmp_path / "site"), "--url", URL[:-1]])
    assert done.exit_code == 0, done.stderr
    for name in ("index.html", "profile-cilium.html"):
        found = tags(tmp_path / "site" / name)
        assert found["og:image"] == f"{URL}card.png"
        assert found["twitter:card"] == "summary_large_image"
        assert "models of the datapaths" in found["og:image:alt"]
    assert size(tmp_path / "site" / "card.png") == SIZE
    site([run], tmp_path / "site")
    assert "og:image" not in tags(tmp_path / "site" / "index.html")
    assert not (tmp_path / "site" / "card.png").exists()


def test_links_to_a_board_have_a_picture_that_says_what_it_has(
    run: RunReader, tmp_path: Path
) -> None:
    (tmp_path / "results" / "lab").mkdir(parents=True)
    (tmp_path / "results" / "lab" / "a.cnibench").write_bytes(bundle(run))
    written = board(tmp_path / "results", tmp_path / "board", url=URL)
    for name in written["pages"]:
        found = tags(tmp_path / "board" / name)
        assert found["og:image"] == f"{URL}card.png"
        assert "2 CNI profiles in 1 published run on 1 testbed" in found["og:image:alt"]
        assert "models of the datapaths, not the CNIs" in found["og:image:alt"]
    assert size(tmp_path / "board" / "card.png") == SIZE


@pytest.mark.parametrize(
    "url",
    [
        "example.org",
        "ftp://example.org",
        'https://a/"><script>',
        "https://a/?b",
        "https://user:secret@a/",
        "https://[::1/",
        "https:///x",
        "https://..",
        "https://a:99999/",
        "https://a/%zz/",
        "",
    ],
)
def test_an_address_that_is_none_is_refused(run: RunReader, tmp_path: Path, url: str) -> None:
    done = call(["site", str(run.path), "--out", str(tmp_path / "site"), "--url", url])
    assert done.exit_code == 2
    assert "give an address such as" in done.stderr
    assert not (tmp_path / "site").exists()


def test_a_card_holds_what_fits_and_no_markup_of_a_run() -> None:
    text = drawn("Which CNI?", "</text><script>alert(1)</script> " + "word " * 200, "A model.")
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert text.count("<text") == 2 + 6
    assert "…" in text
    assert ">A model.<" in text


@pytest.mark.parametrize(
    "url", ["HTTPS://Example.org/x", "http://[::1]:8000/a%20b", "https://a.b/~c/"]
)
def test_an_address_that_is_one_is_taken(run: RunReader, tmp_path: Path, url: str) -> None:
    done = call(["site", str(run.path), "--out", str(tmp_path / "site"), "--url", url])
    assert done.exit_code == 0, done.stderr
    found = tags(tmp_path / "site" / "index.html")
    assert found["og:image"] == f"{url.rstrip('/')}/card.png"
