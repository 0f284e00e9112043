"""The README begins with a command, the picture of what it printed, and how long it took: all three
of one run.
"""

from __future__ import annotations

import re
import shlex
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from benchmarks import first_run
from cnibench.analysis import analyse
from cnibench.errors import UsageError
from cnibench.reports.brief import PROVIDER as BRIEF
from tests.unit._runs import synthetic

README = first_run.README.read_text(encoding="utf-8")
WORDS = ["cnibench", "run", "--cni", "a,b"]
SVG = "{http://www.w3.org/2000/svg}"


def shown(svg: str) -> tuple[str, str, list[str]]:
    """The picture's title, its description and the lines of its terminal."""
    root = ET.fromstring(svg)
    rows: dict[float, str] = {}
    for group in root.iter(f"{SVG}g"):
        if group.get("class") == "first-run-matrix":
            for text in group.iter(f"{SVG}text"):
                row = float(text.get("y", ""))
                rows[row] = rows.get(row, "") + (text.text or "").replace("\xa0", " ")
    title, said = (root.findtext(f"{SVG}{name}") or "" for name in ("title", "desc"))
    return title, said, [rows[row].rstrip("\n") for row in sorted(rows)]


def test_the_readme_begins_with_the_command_the_picture_and_how_long_it_took() -> None:
    title, said, lines = shown(first_run.PICTURE.read_text(encoding="utf-8"))
    heading, command, *rest = (part for part in README.split("\n\n") if part)
    assert heading.startswith("# ")
    assert command.startswith("    ./setup && ")
    assert command.endswith(title)
    assert shlex.split(title) == first_run.command(README)
    assert lines[0] == f"$ {title}"
    picture, caption = rest[:2]
    assert picture.startswith(f"{first_run.BEGIN}\n![")
    assert picture.endswith("](docs/first-run.svg)")
    assert " ".join(caption.removesuffix(first_run.END).split()) == said
    assert re.match(r"This run took (\d+ min )?\d+ s ", said)


def test_the_pictures_name_no_folder_of_the_machine_that_made_them() -> None:
    for picture in (first_run.PICTURE, first_run.RECORDING):
        lines = picture.read_text(encoding="utf-8").replace("\xa0", " ")
        assert not re.findall(r"(?<![\w.:/<])/\w[\w.-]*/\w", lines), picture


def test_the_picture_is_an_answer_that_fits_the_terminal() -> None:
    _, _, lines = shown(first_run.PICTURE.read_text(encoding="utf-8"))
    assert max(map(len, lines)) <= 80
    for beginning in ("testbed: ", "tcp-rr between nodes", "tcp-stream on one node"):
        assert [line for line in lines if line.startswith(beginning)]


def test_the_picture_has_the_lines_of_the_report(tmp_path: Path) -> None:
    analysis = analyse([synthetic(tmp_path, {"a": 1.0, "b": 0.8}, noise=0.002)])
    answer = BRIEF.render(analysis, 80)
    svg = first_run.picture(WORDS, answer, "{4 s} & <more>")
    assert shown(svg) == (
        "cnibench run --cni a,b",
        "{4 s} & <more>",
        ["$ cnibench run --cni a,b", *answer.splitlines()],
    )
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")


def test_a_line_that_does_not_fit_is_refused() -> None:
    with pytest.raises(UsageError, match="more than 80 columns: x"):
        first_run.picture(WORDS, f"short\n{'x' * 81}\n", "")


def test_the_caption_says_when_where_and_how_long() -> None:
    facts = {
        "cpus_online": 2,
        "cpu_model": "Xeon",
        "virtualisation": "kvm",
        "os": "Debian",
        "kernel": "6.1.0-18-amd64",
        "load": [0.26, 1.0, 2.0],
    }
    said = first_run.caption(facts, "2026-01-02T23:59:00.5Z", "2026-01-03T00:01:05.5Z")
    assert said == (
        "This run took 2 min 05 s from its plan to its last sample, on 2026-01-02, with 2 CPUs"
        " (Xeon) of a virtual machine, Debian, Linux 6.1.0; the load was 0.3 before it."
    )


def test_a_new_caption_replaces_the_old_one() -> None:
    page = f"before\n{first_run.BEGIN}\nold\n{first_run.END}\nafter"
    changed = first_run.with_caption(page, "new", "| table |")
    again = first_run.with_caption(changed.replace("new", "older"), "new", "| table |")
    assert changed == again
    assert changed.startswith(f"before\n{first_run.BEGIN}\n![")
    assert "](docs/first-run.svg)\n\nnew\n\n| table |\n\n![" in changed
    assert changed.endswith(f"](docs/first-run-board.png)\n{first_run.END}\nafter")
    with pytest.raises(UsageError, match=r"README\.md has no"):
        first_run.with_caption("nothing", "new", "")


def test_the_table_has_the_median_of_each_profile(tmp_path: Path) -> None:
    analysis = analyse([synthetic(tmp_path, {"a": 1.0, "b": 0.8}, noise=0.002)])
    head, _, *rows = first_run.results(analysis).splitlines()
    assert head == "|  | a | b |"
    assert rows
    for row in rows:
        place, a, b = [cell.strip() for cell in row.strip("|").split("|")]
        assert ", " in place  # with the unit
        assert float(b.split()[0]) / float(a.split()[0]) == pytest.approx(0.8, rel=0.02)
