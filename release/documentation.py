"""Writes the sources of the documentation's site: the pages of docs/, files from outside it that
are pages, and pages that are made from the code. 'tox -e docs' then builds the site.

usage: documentation.py FOLDER [URL]

URL: where the site will be published. The demo is beside it, and README's link leads there.
"""

from __future__ import annotations

import inspect
import json
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from man import commands, context_of

from cnibench.cli.main import group
from cnibench.model.metrics import METRICS
from cnibench.model.profile import choose
from cnibench.registry import providers

ROOT = Path(__file__).parents[1]
_PLANS = ROOT / "src" / "cnibench" / "planning" / "plans"
_NO_PAGES = "results-repository"  # files to copy
_DOWNLOADS = "dashboards"  # a folder of files that pages link to, for who has no checkout
_WIDTH = 80  # columns of a command's help
# Files outside docs/ that are pages: source to page.
_INCLUDED = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reporting.md",
    "benchmarks/README.md": "benchmarks.md",
}
_DEPLOYMENTS = "../../deployments/github-pages"  # of the repository, as GitHub shows README.md
_LINK = re.compile(r"(!?)\[([^\]\[]*)\]\((?!https?:|#|mailto:)([^)#]+)(#[^)]*)?\)")


def write(folder: Path, url: str = "") -> None:
    """Everything that the generator reads, in ``folder``, in place of what is there. ``url`` is
    where the site will be published; without it no page links to the demo.
    """
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns(_NO_PAGES))
    shutil.copytree(ROOT / _DOWNLOADS, folder / "docs" / _DOWNLOADS)
    shutil.copy(ROOT / "mkdocs.yml", folder)
    for path in (folder / "docs").rglob("*.md"):
        page = path.relative_to(folder / "docs")
        path.write_text(_relinked(path.read_text("utf-8"), Path("docs") / page, page), "utf-8")
    for source, name in _INCLUDED.items():
        text = _with_demo((ROOT / source).read_text("utf-8"), url)
        text = _relinked(text, Path(source), Path(name))
        (folder / "docs" / name).write_text(text, "utf-8")
    (folder / "docs" / "reference").mkdir()
    for name, make in _GENERATED.items():
        (folder / "docs" / "reference" / f"{name}.md").write_text(make(), "utf-8")


def _with_demo(text: str, url: str) -> str:
    demo, board = (f"{url.rstrip('/')}/{name}/" for name in ("demo", "board"))
    words = f"[the site]({demo}) and [the board]({board})" if url else r"\1"
    return re.sub(rf"\[([^\]]*)\]\({re.escape(_DEPLOYMENTS)}\)", words, text)


def _relinked(text: str, source: Path, page: Path) -> str:
    """Links from ``source`` as links from ``page``; of one to what is no page the text stays."""
    up = "../" * (len(page.parts) - 1)

    def link(found: re.Match[str]) -> str:
        image, words, target, anchor = found[1], found[2], found[3], found[4] or ""
        path = (ROOT / source.parent / target).resolve()
        if not path.is_relative_to(ROOT) or not path.exists():
            return found[0]  # the generator names it
        name = path.relative_to(ROOT).as_posix()
        if name in _INCLUDED:
            return f"{image}[{words}]({up}{_INCLUDED[name]}{anchor})"
        if path.is_file() and name.startswith("docs/") and _NO_PAGES not in name:
            return f"{image}[{words}]({up}{name.removeprefix('docs/')}{anchor})"
        if path.is_file() and name.startswith(f"{_DOWNLOADS}/"):
            return f"{image}[{words}]({up}{name})"
        return f"`{name}`" if words == name else f"{words} (`{name}`)"

    return _LINK.sub(link, text)


def _commands() -> str:
    parts = [
        "# Commands\n\nWhat `--help` prints. The [overview](../overview.md#exit-status) has the"
        " exit statuses.\n"
    ]
    for words, command in commands(group, ("cnibench",)):
        context = context_of(command, words)
        context.terminal_width = context.max_content_width = _WIDTH
        level = "#" * max(2, len(words))
        parts.append(f"{level} {' '.join(words)}\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(parts)


def _profiles() -> str:
    rows = [
        [
            f"`{name}`",
            one.title,
            one.features.mode,
            one.datapath.model if one.datapath else "none",
            "yes" if one.kubernetes else "no",
        ]
        for name, one in sorted(choose(["*"]).items())
    ]
    head = (
        "# Profiles\n\nA CNI in one mode, one file each in `cni-profiles/`. `cnibench profiles show"
        " NAME` prints all its features; the schema of the files is `cni-profiles/schema.json`.\n\n"
    )
    return head + _table(
        ["name", "title", "mode", "model in the lab", "installed on Kubernetes"], rows
    )


def _workloads() -> str:
    parts = [
        "# Workloads\n\n`--workload NAME:KEY=VALUE`, or `workload:` of a [plan](../plans.md). The"
        " main metric decides comparisons.\n"
    ]
    for name, one in sorted(providers("workloads").items()):
        parts.append(f"## {name}\n\n{one.title}. Main metric: `{one.primary}`.\n")
        fields = one.Params.model_fields.items()
        if fields:
            parts.append(f"{inspect.getdoc(one.Params)}\n")
            rows = [[f"`{key}`", f"`{json.dumps(field.default)}`"] for key, field in fields]
            parts.append(_table(["parameter", "default"], rows))
    return "\n".join(parts)


def _metrics() -> str:
    rows = [[f"`{one.name}`", one.title, one.unit, one.better] for one in METRICS.values()]
    return "# Metrics\n\nIn SI base units.\n\n" + _table(["name", "title", "unit", "better"], rows)


def _plans() -> str:
    parts = ["# Shipped plans\n\n`cnibench run --plan NAME`; [Plans](../plans.md) has the keys.\n"]
    parts += [
        f"## {path.stem}\n\n```yaml\n{path.read_text(encoding='utf-8')}```\n"
        for path in sorted(_PLANS.glob("*.yaml"))
    ]
    return "\n".join(parts)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |\n"
        for line in lines
    )


_GENERATED: dict[str, Callable[[], str]] = {
    "commands": _commands,
    "profiles": _profiles,
    "workloads": _workloads,
    "metrics": _metrics,
    "plans": _plans,
}


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    write(Path(sys.argv[1]), *sys.argv[2:])
