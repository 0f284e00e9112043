"""The data beside the pages: every figure as CSV and as JSON, with ``raw`` the runs themselves."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from cnibench.analysis.model import Analysis, Where
from cnibench.analysis.text.narrative import place_of
from cnibench.registry import provider
from cnibench.reports.site.dataset import Material
from cnibench.rundir.schema import LOG

_TABLES = ("results", "groups", "pairs", "cpp", "attestations", "failures", "disturbed")
_IN_WORDS = "reason"  # of a pair: it follows from its basis, blocks and blocks_needed
_DIGITS = 8  # more than any of these figures is certain to


def write(found: Material, out: Path) -> None:
    """Writes all of it below ``out``."""
    (out / "data").mkdir()
    text = provider("reports", "csv").render(found.analysis)
    (out / "data" / "numbers.csv").write_text(text, encoding="utf-8", newline="")
    (out / "data" / "report.json").write_bytes(msgspec.json.encode(compact(found.analysis)) + b"\n")
    if found.raw:
        for reader in found.readers:
            shutil.copytree(
                reader.path,
                out / "raw" / reader.path.resolve().name,
                ignore=_unpublished,
                copy_function=shutil.copyfile,
            )
        for folder, _, _ in os.walk(out / "raw"):
            os.chmod(
                folder, 0o755
            )  # those of a run are for its owner only; these were asked to be published


def compact(analysis: Analysis) -> dict[str, Any]:
    """The document of ``report --format json`` in a quarter of its size: lists are tables, and a
    pair has the number of its group in place of what its group says.
    """
    document: dict[str, Any] = _rounded(msgspec.to_builtins(analysis))
    number = {_key(group): at for at, group in enumerate(analysis.groups)}
    left_out = {*Where.__struct_fields__, _IN_WORDS}
    document["pairs"] = [
        {"group": number[_key(pair)], **{k: v for k, v in row.items() if k not in left_out}}
        for pair, row in zip(analysis.pairs, document["pairs"], strict=True)
    ]
    return document | {name: _table(document[name]) for name in _TABLES}


def _key(where: Where) -> tuple[object, ...]:
    return place_of(where), where.metric, msgspec.json.encode(where.reading, order="sorted")


def _table(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """``same``: the values that all rows share; ``data``: those of the ``columns`` of each row."""
    first = rows[0] if rows else {}
    same = {k: v for k, v in first.items() if all(row[k] == v for row in rows)}
    columns = [name for name in first if name not in same]
    data = [[row[name] for name in columns] for row in rows]
    return {"same": same, "columns": columns, "data": data}


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list) else value


def _unpublished(folder: str, names: list[str]) -> set[str]:
    """A link in a run directory that somebody sent must not publish what it points to, and a FIFO
    cannot be copied. The log is for whoever ran it: it holds every command and request.
    """
    modes = {name: (Path(folder) / name).lstat().st_mode for name in names}
    return {
        name
        for name, mode in modes.items()
        if name == LOG or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
    }


def downloads(found: Material, out: Path) -> list[tuple[str, str]]:
    """(path, what it is) of the data beside the pages."""
    rows = [
        ("data/numbers.csv", "every figure with its interval and verdict, one a line"),
        ("data/report.json", "the same, every pair, and the value of each block, as tables"),
    ]
    if found.raw:
        for folder in sorted((out / "raw").iterdir()):
            rows += [
                (file.relative_to(out).as_posix(), f"of run {folder.name}")
                for file in sorted(folder.iterdir())
                if file.is_file()
            ]
    return rows
