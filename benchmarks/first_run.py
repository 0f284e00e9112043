"""The picture with which the README begins: what its command prints at the end of a real run, and
how long that run took.

    sudo .venv/bin/python benchmarks/first_run.py [RUN]

Without RUN it carries out the README's command, which stores the run in runs/; that needs root and
an idle machine. RUN is the directory of a run that the same command made. Writes docs/first-run.svg
and the caption in the README. The lines are those of ``cnibench report RUN --format brief``.
"""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any

from cnibench.analysis import analyse
from cnibench.errors import CnibenchError, UsageError
from cnibench.model.units import duration
from cnibench.registry import provider
from cnibench.rundir.index import find
from cnibench.rundir.reader import RunReader
from cnibench.system.text import console

ROOT = Path(__file__).parents[1]
README, PICTURE = ROOT / "README.md", ROOT / "docs" / "first-run.svg"
WIDTH = 80
BEGIN, END = "<!-- begin: made by benchmarks/first_run.py -->", "<!-- end -->"
_ALT = "What the command prints at its end: who is best, by how much, how certain that is, and why"
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


def with_caption(page: str, said: str) -> str:
    """The README with the picture and this caption in place of what was there."""
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise UsageError(f"README.md has no '{BEGIN}' and '{END}'", "restore these lines")
    image = f"![{_ALT}]({PICTURE.relative_to(ROOT).as_posix()})"
    return f"{before}{BEGIN}\n{image}\n\n{textwrap.fill(said, 120)}\n{END}{after}"


def main() -> int:
    page = README.read_text(encoding="utf-8")
    words = command(page)
    if len(sys.argv) == 1:
        argv = [sys.executable, "-c", _MAIN, *words[1:]]
        if status := subprocess.run(argv, cwd=ROOT, check=False).returncode:
            return status
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
    answer = provider("reports", "brief").render(analysis, WIDTH)
    PICTURE.write_text(picture(words, answer, said), encoding="utf-8")
    README.write_text(with_caption(page, said), encoding="utf-8")
    print(f"{PICTURE} and {README.name}: {said}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CnibenchError as error:
        sys.exit(f"error: {error.message}\n  remedy: {error.remedy}")
