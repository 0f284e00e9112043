"""What a reader of another tool's results hands over, and the little that all readers share."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from cnibench.errors import InputError, UsageError
from cnibench.system.files import read_beneath, read_named

UNKNOWN = "not recorded"
_LARGEST = 64 << 20  # bytes of one file
_MOST_FILES = 10_000  # that are read
_MOST_SEEN = 200_000  # files and folders that are looked at
_MOST_RESULTS = 100_000
_LARGEST_FIGURE = (
    1e24  # beyond any figure of a network in any unit; sums and products of such are still numbers
)
_LONGEST_NAME = 1000  # characters of a label or a test's name
_LONGEST_FACT = 200
_BLANKS = re.compile(r"[ \t\r\n]*")
_NAMED = 12  # tests that a note names


@dataclass(frozen=True)
class Given:
    """What the user says beside the files: ``label`` names the results, ``placement`` is intra or
    inter, ``workload`` the test, ``unit`` the letter of netperf's -f; '' where the files tell it.
    """

    label: str = ""
    placement: str = ""
    workload: str = ""
    unit: str = ""


@dataclass(frozen=True)
class Figure:
    """One figure in the SI base unit of its metric. ``value`` None: it is missing, ``reason`` says
    how; it stays missing.
    """

    metric: str
    value: float | None
    params: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True)
class Result:
    """One measurement of another tool. Without figures it failed, and ``reason`` says why.
    ``start`` and ``end`` in s since 1970, or None.

    ``repeat`` is its block where the files number their repeats; None: they are counted in the
    order of the results. ``ip`` and ``mtu`` are 0 where they are not recorded. ``untold`` names the
    parameters that the output of a failed one does not tell, though it had them.
    """

    label: str
    placement: str
    workload: str
    params: Mapping[str, Any]
    figures: tuple[Figure, ...]
    file: Path
    reason: str = ""
    path: str = UNKNOWN
    fidelity: str = UNKNOWN
    ip: int = 0
    mtu: int = 0
    repeat: int | None = None
    start: float | None = None
    end: float | None = None
    duration: float = 0.0  # s; 0: that of the batch
    untold: tuple[str, ...] = ()


@dataclass
class Batch:
    """All results of one import of ``root``. ``facts`` are those of env.json that the files tell,
    ``notes`` what was left out, ``not_run`` the tests (label, test) that the other tool did not
    start: they are neither results nor failures.
    """

    root: Path
    results: list[Result] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    duration: float = 0.0
    not_run: list[tuple[str, str]] = field(default_factory=list)

    def add(self, found: Iterable[Result]) -> None:
        """Raises InputError when they become too many."""
        for one in found:
            if len(one.label) > _LONGEST_NAME or len(one.workload) > _LONGEST_NAME:
                raise InputError(
                    f"{one.file}: a name of more than {_LONGEST_NAME} characters",
                    "name the results with --label",
                )
            self.results.append(one)
            if len(self.results) > _MOST_RESULTS:
                raise InputError(
                    f"{self.root}: more than {_MOST_RESULTS:,} results", "import it in parts"
                )

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def fact(self, name: str, value: object) -> None:
        """A fact of env.json, unless it is blank; two different values become 'several'."""
        text = str(value or "").strip()[:_LONGEST_FACT]
        if text:
            self.facts[name] = text if self.facts.get(name, text) == text else "several"

    def remarks(self) -> list[str]:
        """The notes and, at their end, what was not run."""
        tests = dict.fromkeys(f"{label}: {test}" for label, test in self.not_run)
        more = f" and {len(tests) - _NAMED} more" if len(tests) > _NAMED else ""
        said = f"not run: {'; '.join(list(tests)[:_NAMED])}{more}"
        return [*self.notes, *([said] if tests else [])]


class Reader(Protocol):
    """One format. ``read`` raises InputError naming the file and the line, or UsageError when the
    user must say more.
    """

    name: str
    title: str

    def read(self, path: Path, given: Given) -> Batch: ...


def content_of(file: Path, root: Path) -> bytes:
    """A file that the user named (``root``), or one below a folder that the user named: there no
    link is followed. Raises InputError.
    """
    try:
        if file == root:
            return read_named(file, _LARGEST)
        return read_beneath(root, file.relative_to(root), _LARGEST)
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}", "check the path") from None
    except ValueError:
        raise InputError(f"{str(file)!r}: not a path", "check the path") from None


def text_of(file: Path, root: Path) -> str:
    """Its text. Raises InputError."""
    try:
        return content_of(file, root).decode()
    except UnicodeDecodeError:
        raise InputError(f"{file}: not UTF-8 text", "is this the right file?") from None


def files(path: Path, endings: Iterable[str]) -> list[Path]:
    """The same as ``below``. Raises InputError when there are none, too."""
    wanted = tuple(endings)
    found = below(path, wanted)
    if not found:
        raise InputError(
            f"{path}: no file in it ends with {', '.join(wanted)}",
            "name the file, or the folder that holds the results",
        )
    return found


def below(path: Path, endings: tuple[str, ...]) -> list[Path]:
    """The file itself, or all files below a folder whose names end so, in order of their names;
    folders behind links are left out.

    Raises InputError when there are too many.
    """
    if not path.is_dir():
        return [path]
    found, seen = [], 0
    for folder, folders, names in os.walk(path):
        seen += len(folders) + len(names)
        found += [Path(folder, name) for name in names if name.endswith(endings)]
        if seen > _MOST_SEEN or len(found) > _MOST_FILES:
            raise InputError(
                f"{path}: more than {_MOST_FILES:,} files of results, or {_MOST_SEEN:,} of any"
                " kind",
                "import it in parts",
            )
    return sorted(found)


def label_of(file: Path, root: Path, given: Given) -> str:
    """The label that the user gave; else the first folder below the one that is imported
    (PROFILE/...), else that one, else the file.
    """
    if given.label:
        return given.label
    if root.is_dir():
        parts = file.relative_to(root).parts
        return readable(parts[0] if len(parts) > 1 else root.absolute().name)
    return readable(file.stem)


def readable(name: str) -> str:
    """A file's name as text: bytes that are no UTF-8 are replaced."""
    return name.encode("utf-8", "replace").decode() or "imported"


def named(found: Iterable[Result], given: Given) -> Iterator[Result]:
    """Results of the hosts' own network belong to no CNI: their label is host, unless the user gave
    one.
    """
    for one in found:
        baseline = one.fidelity == "baseline" and not given.label
        yield replace(one, label="host") if baseline else one


def placement_of(given: Given, tool: str) -> str:
    """The placement that the user gave, for results that do not tell it. Raises UsageError when
    there is none.
    """
    if not given.placement:
        raise UsageError(
            f"{tool}'s output does not say where its ends ran",
            "say it: --placement intra (one node) or --placement inter",
        )
    return given.placement


def json_of(text: str, path: Path) -> Any:
    """JSON text, in which NaN and Infinity are missing values. Raises InputError naming the
    line.
    """
    values = list(islice(json_values(text, path), 2))
    if len(values) == 1:
        return values[0]
    raise InputError(
        f"{path}, line 1: not JSON: expected one value, got {'several' if values else 'none'}",
        "check that this is the right file and complete",
    )


def json_values(text: str, path: Path) -> Iterator[Any]:
    """The JSON values that follow each other in a text. Raises InputError as ``json_of``."""
    decoder = json.JSONDecoder(parse_constant=lambda _: None)
    escaped = "\\u" in text  # half a surrogate pair can be escaped in JSON, and is no text
    try:
        at = _blank(text, 0)
        while at < len(text):
            value, at = decoder.raw_decode(text, at)
            if escaped:
                json.dumps(value, ensure_ascii=False).encode()
            yield value
            at = _blank(text, at)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}, line {error.lineno}: not JSON: {error.msg}",
            "check that this is the right file and complete",
        ) from None
    except (RecursionError, ValueError):
        raise InputError(
            f"{path}: JSON that cannot be read (nested too deeply, numbers too long, no text)",
            "is this the file?",
        ) from None


def _blank(text: str, at: int) -> int:
    """Where the next value begins."""
    found = _BLANKS.match(text, at)
    return found.end() if found else at


def number(value: object) -> float | None:
    """A finite figure that is not negative, from text or JSON; None for everything else: null,
    blank, NaN, words.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if 0 <= found <= _LARGEST_FIGURE else None


def whole(value: object) -> int:
    """A size or a count; 0 where there is none, or an impossible one."""
    found = number(value)
    return int(found) if found is not None and found < 2**53 else 0


def mapping(value: object) -> Mapping[str, Any]:
    """A JSON object; empty when it is something else."""
    return value if isinstance(value, dict) else {}


def figure(metric: str, value: object, what: str, scale: float = 1.0, **params: Any) -> Figure:
    """A figure of that metric; one that is missing says what stood there."""
    found = number(value)
    if found is None:
        said = (
            "is missing"
            if value is None
            else "is blank"
            if str(value).strip() == ""
            else f"is no figure: {str(value)[:40]}"
        )
        return Figure(metric, None, params, f"{what} {said}")
    if not math.isfinite(found * scale):
        return Figure(metric, None, params, f"{what} is no possible figure: {str(value)[:40]}")
    return Figure(metric, found * scale, params)


def lines(text: str) -> Iterator[tuple[int, str]]:
    """(number, line) of the lines that are not blank, without blanks around them."""
    for at, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield at, line.strip()
