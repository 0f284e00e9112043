"""docs/mutation.md, out of the last result of each group (tests/mutation/scores.json)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from named import Named
from score import Group, Score
from staging import ROOT

_SCORES = Path(__file__).parent / "scores.json"
_PAGE = ROOT / "docs" / "mutation.md"
_MARK = "<!-- Below this line `tox -e mutation` writes. -->"


def keep(name: str, scores: Sequence[Score]) -> None:
    """Stores the result of a group."""
    known = json.loads(_SCORES.read_text(encoding="utf-8")) if _SCORES.exists() else {}
    known[name] = [
        {
            "module": one.module,
            "killed": one.killed,
            "timeouts": one.timeouts,
            "survived": sorted(one.survived),
            "equivalent": one.equivalent,
            "missing": one.missing,
        }
        for one in scores
    ]
    text = json.dumps(known, indent=1, sort_keys=True, ensure_ascii=False)
    _SCORES.write_text(text + "\n", encoding="utf-8")


def write(mutations: Sequence[Named], groups: Mapping[str, Group]) -> None:
    """Replaces what follows the mark in the page."""
    known = json.loads(_SCORES.read_text(encoding="utf-8")) if _SCORES.exists() else {}
    head = _PAGE.read_text(encoding="utf-8").partition(_MARK)[0]
    parts = [head + _MARK, "## Named mutations\n", *_named(mutations), "\n## Score by module\n"]
    parts += _table(known, groups)
    _PAGE.write_text("\n".join(parts) + "\n", encoding="utf-8")


def _named(mutations: Sequence[Named]) -> list[str]:
    rows = ["| mutation | file | test that kills it |", "|---|---|---|"]
    for one in mutations:
        tests = ", ".join(f"`{test.removeprefix('tests/')}`" for test in one.tests)
        rows.append(f"| {one.name} | `{one.file}` | {tests} |")
    return rows


def _table(known: Mapping[str, list[dict[str, object]]], groups: Mapping[str, Group]) -> list[str]:
    rows = [
        "| group | module | mutants | tried | killed | timed out | equivalent | score |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    unmeasured = []
    every = tried = 0
    for name, group in groups.items():
        if name not in known:
            unmeasured.append(f"- {name}: {', '.join(f'`{one}`' for one in group.modules)}")
        for entry in known.get(name, ()):
            one = Score(**entry)  # type: ignore[arg-type]
            total = one.tried + one.equivalent + one.missing
            every, tried = every + total, tried + one.tried + one.equivalent
            rows.append(
                f"| {name} | `{one.module}` | {total} | {one.tried + one.equivalent}"
                f" | {one.killed} | {one.timeouts} | {one.equivalent}"
                f" | {f'{one.score:.1%}' if one.tried else '-'} |"
            )
    rows.append(f"\n{tried} of {every} mutants were tried ({tried / max(every, 1):.0%}).")
    if unmeasured:
        rows += ["\nNot measured yet:\n", *unmeasured]
    return rows
