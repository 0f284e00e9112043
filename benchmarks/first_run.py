"""The beginning of the README: what its command prints at the end of a real run, how long that run
took, its results as a table, what the screen showed meanwhile, and the board made of it.

    sudo .venv/bin/python benchmarks/first_run.py [RUN]

Without RUN it carries out the README's command, which stores the run in runs/; that needs root, an
idle machine and pyte. RUN is the directory of a run that the same command made; the recording then
stays as it is. The picture of the board needs Chromium. Writes docs/first-run*, and what is between
two marks in the README. The lines are those with which the command ends.
"""

from __future__ import annotations

import io
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any

from cnibench.analysis import analyse
from cnibench.analysis.model import Analysis, Result
from cnibench.analysis.text.narrative import primary_places
from cnibench.cli.measurement.results import elsewhere
from cnibench.errors import CnibenchError, MissingError, UsageError
from cnibench.model.units import duration
from cnibench.registry import provider
from cnibench.reports._numbers import Scale
from cnibench.reports.board.build import build
from cnibench.reports.bundle.making import bundle
from cnibench.rundir.index import find
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import REPORT
from cnibench.system.text import console

ROOT = Path(__file__).parents[1]
README, PICTURE = ROOT / "README.md", ROOT / "docs" / "first-run.svg"
RECORDING = ROOT / "docs" / "first-run-recording.svg"
BOARD = ROOT / "docs" / "first-run-board.png"
WIDTH, _ROWS = 80, 34
_SPEED, _REST = 8, 10  # times as fast; seconds for which the last screen stays
BEGIN, END = "<!-- begin: made by benchmarks/first_run.py -->", "<!-- end -->"
_ALT = "What the command prints at its end: who is best, by how much, how certain that is, and why"
_RECORDED = (
    f"The screen while it runs, {_SPEED} times as fast: a provisional ranking, then the answer"
)
_BOARD = (
    "The board made of this run: its profiles ranked by weights, with the uncertainty of each rank"
)
_MAIN = (
    "import sys; from cnibench.cli.main import main; sys.argv = ['cnibench', *sys.argv[1:]]; main()"
)
# rich's own format loads fonts from another site, which no page that shows the picture allows
_SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {{width}} {{height}}">
<title>{title}</title>
<desc>{caption}</desc>
<style>
.{{unique_id}}-matrix {{{{
  font: {{char_height}}px/{{line_height}}px ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace;
}}}}
{{styles}}
</style>
<defs>
<clipPath id="{{unique_id}}-clip-terminal">
<rect x="0" y="0" width="{{terminal_width}}" height="{{terminal_height}}"/>
</clipPath>
{{lines}}
</defs>
{{chrome}}
<g transform="translate({{terminal_x}}, {{terminal_y}})" clip-path="url(#{{unique_id}}-clip-terminal)">
{{backgrounds}}
<g class="{{unique_id}}-matrix">
{{matrix}}
</g>
</g>
</svg>
"""  # noqa: E501


def command(page: str) -> list[str]:
    """The words of the README's first command, without what it takes to set up and become root."""
    block = re.search(r"^ {4}(\S.*)$", page, re.MULTILINE)
    words = shlex.split(block[1]) if block else []
    names = [Path(word).name for word in words]
    return ["cnibench", *words[names.index("cnibench") + 1 :]]


def caption(environment: Mapping[str, Any], created: str, finished: str) -> str:
    """How long the run took, and where and when it was made."""
    began, ended = datetime.fromisoformat(created), datetime.fromisoformat(finished)
    machine = f"{environment['cpus_online']} CPUs ({environment['cpu_model']})"
    if environment.get("virtualisation"):
        machine += " of a virtual machine"
    release = re.match(r"[\d.]*", str(environment["kernel"]))
    return (
        f"This run took {duration((ended - began).total_seconds())} from its plan to its last"
        f" sample, on {began:%Y-%m-%d}, with {machine}, {environment['os']}, Linux"
        f" {release[0] if release else ''}; the load was {environment['load'][0]:.1f} before it."
    )


def picture(words: Sequence[str], answer: str, said: str) -> str:
    """A terminal with the command and its answer, as SVG. Raises UsageError if a line is longer
    than the terminal is wide.
    """
    lines = [f"$ {shlex.join(words)}", *answer.splitlines()]
    if longest := max((line for line in lines if len(line) > WIDTH), key=len, default=""):
        raise UsageError(f"more than {WIDTH} columns: {longest}", "use shorter names")
    terminal = console(io.StringIO(), record=True, width=WIDTH)
    for number, line in enumerate(lines):
        terminal.print(line, style=None if number else "bold")
    title, text = (
        escape(one).replace("{", "{{").replace("}", "}}") for one in (lines[0][2:], said)
    )
    svg = terminal.export_svg(
        title="", code_format=_SVG.format(title=title, caption=text), unique_id="first-run"
    )
    return "".join(f"{line.strip()}\n" for line in svg.splitlines() if line.strip())


def results(analysis: Analysis) -> str:
    """The main metric of each place as a table of Markdown: medians with their intervals."""
    labels = list(dict.fromkeys(one.label for one in analysis.results))
    lines = [["", *labels], ["---", *["--:"] * len(labels)]]
    for place in primary_places(analysis):
        scale = Scale.of([one.median for one in place.results], place.group.unit)
        found = {one.label: _cell(one, scale) for one in place.results}
        lines.append([f"{place.name}{scale.heading()}", *(found.get(one, "-") for one in labels)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(one: Result, scale: Scale) -> str:
    if one.ci_low is None or one.ci_high is None:
        return scale(one.median)
    return f"{scale(one.median)} ({scale(one.ci_low)} to {scale(one.ci_high)})"


def board_picture(run: RunReader) -> None:
    """A picture of the board of this one run, 1440 pixels wide."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise MissingError("there is no Chromium", "install it: ./setup --test=all")
    with tempfile.TemporaryDirectory() as folder:
        results_folder = Path(folder, "results", "readme")
        results_folder.mkdir(parents=True)
        (results_folder / "run.cnibench").write_bytes(bundle(run))
        build(results_folder.parent, Path(folder, "site"))
        options = [
            "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
            "--disable-background-networking", "--window-size=1440,860",
        ]  # fmt: skip
        page = Path(folder, "site", "index.html").as_uri()
        own = f"--user-data-dir={folder}/chromium"
        argv = [chromium, *options, own, f"--screenshot={BOARD}", page]
        subprocess.run(argv, check=True, capture_output=True, timeout=60)


def with_caption(page: str, said: str, table: str) -> str:
    """The README with the pictures, this caption and table in place of what was there."""
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise UsageError(f"README.md has no '{BEGIN}' and '{END}'", "restore these lines")
    first, *others = (
        f"![{words}]({path.relative_to(ROOT).as_posix()})"
        for words, path in ((_ALT, PICTURE), (_RECORDED, RECORDING), (_BOARD, BOARD))
    )
    parts = [f"{BEGIN}\n{first}", textwrap.fill(said, 120), table, *others]
    return before + "\n\n".join(parts) + f"\n{END}{after}"


def main() -> int:
    page = README.read_text(encoding="utf-8")
    words = command(page)
    if len(sys.argv) == 1:
        from benchmarks._recording import animation, record

        argv = [sys.executable, "-c", _MAIN, *words[1:]]
        status, frames = record(argv, str(ROOT), WIDTH, _ROWS, {"TERM": "xterm-256color"})
        if status:
            print("\n".join(frames[-1].lines), file=sys.stderr)
            return status
        title = shlex.join(words)
        film = animation(frames, WIDTH, _ROWS, title, speed=_SPEED, rest=_REST)
        RECORDING.write_text(film, encoding="utf-8")
    run = RunReader(find(sys.argv[1] if len(sys.argv) > 1 else "last", ROOT / "runs"))
    if run.plan.command != words:
        raise UsageError(
            f"{run.id} was made by: {shlex.join(run.plan.command)}",
            f"take a run that was made by: {shlex.join(words)}",
        )
    analysis = analyse([run])
    if not run.finished or analysis.problems or run.chain.sessions > 1:
        raise UsageError(
            f"{run.id} is unfinished, damaged or resumed", "take one that ended without a pause"
        )
    said = caption(run.environment, run.plan.created, run.finished)
    rest = elsewhere(Path("runs", run.id, REPORT))
    answer = f"{provider('reports', 'brief').render(analysis, WIDTH)}{rest}\n"
    PICTURE.write_text(picture(words, answer, said), encoding="utf-8")
    board_picture(run)
    README.write_text(with_caption(page, said, results(analysis)), encoding="utf-8")
    print(f"{PICTURE} and {README.name}: {said}")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    try:
        sys.exit(main())
    except CnibenchError as error:
        sys.exit(f"error: {error.message}\n  remedy: {error.remedy}")
