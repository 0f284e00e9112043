"""What is done to the files of a run directory."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.fuzz.rundirs import Fuzzer

Files = dict[str, bytes]


def keep_events(files: Files, keep: list[bytes]) -> None:
    """These events and exactly what they commit."""
    files["events.jsonl"] = b"".join(keep)
    sizes: dict[str, int] = {}
    for line in keep:
        try:
            for name, segment in json.loads(line).get("files", {}).items():
                sizes[name] = segment["at"] + segment["bytes"]
        except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
            continue
    for name in ("samples.jsonl", "cpp.jsonl", "attestations.jsonl"):
        files[name] = files.get(name, b"")[: sizes.get(name, 0)]


Mutation = Callable[["Fuzzer", Files, list[tuple[str, str]]], None]


def _drop_line(fuzzer: Fuzzer, files: Files, special: list[tuple[str, str]]) -> None:
    name, lines = fuzzer.lines(files)
    if lines:
        lines.pop(fuzzer.random.randrange(len(lines)))
        files[name] = b"".join(lines)


def _double_line(fuzzer: Fuzzer, files: Files, special: list[tuple[str, str]]) -> None:
    name, lines = fuzzer.lines(files)
    if lines:
        at = fuzzer.random.randrange(len(lines))
        to = at if fuzzer.random.random() < 0.5 else fuzzer.random.randrange(len(lines) + 1)
        lines.insert(to, lines[at])
        files[name] = b"".join(lines)


def _swap_lines(fuzzer: Fuzzer, files: Files, special: list[tuple[str, str]]) -> None:
    name, lines = fuzzer.lines(files)
    if len(lines) > 1:
        one, other = fuzzer.random.sample(range(len(lines)), 2)
        lines[one], lines[other] = lines[other], lines[one]
        files[name] = b"".join(lines)


def _flip_byte(fuzzer: Fuzzer, files: Files, special: list[tuple[str, str]]) -> None:
    name = fuzzer.choose(files)
    if data := bytearray(files.get(name, b"")):
        data[fuzzer.random.randrange(len(data))] ^= 1 << fuzzer.random.randrange(8)
        files[name] = bytes(data)


def _zeros(fuzzer: Fuzzer, files: Files, special: list[tuple[str, str]]) -> None:
    """What a file system leaves of a file after a power cut."""
    name = fuzzer.choose(files)
    data = files.get(name, b"")
    at = fuzzer.random.randrange(len(data) + 1)
    files[name] = data[:at] + bytes(len(data) - at)


def _cut_bytes(fuzzer: Fuzzer, files: Files, special: list[tuple[str, str]]) -> None:
    name = fuzzer.choose(files)
    data = files.get(name, b"")
    start = fuzzer.random.randrange(len(data) + 1)
    files[name] = data[:start] + data[start + fuzzer.random.randrange(1, 400) :]


def _double_bytes(fuzzer: Fuzzer, files: Files, special: list[tuple[str, str]]) -> None:
    name = fuzzer.choose(files)
    data = files.get(name, b"")
    start, length = fuzzer.random.randrange(len(data) + 1), fuzzer.random.randrange(1, 2000)
    files[name] = data[:start] + data[start : start + length] * 2 + data[start + length :]


def _truncate(fuzzer: Fuzzer, files: Files, special: list[tuple[str, str]]) -> None:
    name = fuzzer.choose(files)
    data = files.get(name, b"")
    files[name] = data[: fuzzer.random.randrange(len(data) + 1)]


def _truncate_lines(fuzzer: Fuzzer, files: Files, special: list[tuple[str, str]]) -> None:
    name, lines = fuzzer.lines(files)
    files[name] = b"".join(lines[: fuzzer.random.randrange(len(lines) + 1)])


def _truncate_all(fuzzer: Fuzzer, files: Files, special: list[tuple[str, str]]) -> None:
    """The end of the events and exactly what they commit."""
    events = files.get("events.jsonl", b"").splitlines(keepends=True)
    keep_events(files, events[: fuzzer.random.randrange(len(events) + 1)])
    if fuzzer.random.random() < 0.5:
        files.pop("seal.json", None)


def _remove(fuzzer: Fuzzer, files: Files, special: list[tuple[str, str]]) -> None:
    files.pop(fuzzer.choose(files), None)


def _of_other(fuzzer: Fuzzer, files: Files, special: list[tuple[str, str]]) -> None:
    """A file of another run in its place."""
    name = fuzzer.choose(files)
    if name in fuzzer.others:
        files[name] = fuzzer.others[name]


def _several_of_other(fuzzer: Fuzzer, files: Files, special: list[tuple[str, str]]) -> None:
    for name in (
        "samples.jsonl",
        "events.jsonl",
        "cpp.jsonl",
        "plan.json",
        "env.json",
        "seal.json",
        "attestations.jsonl",
    ):
        if fuzzer.random.random() < 0.5:
            files[name] = fuzzer.others.get(name, b"")


def _line_of_other(fuzzer: Fuzzer, files: Files, special: list[tuple[str, str]]) -> None:
    name, lines = fuzzer.lines(files)
    if theirs := fuzzer.others.get(name, b"").splitlines(keepends=True):
        at = fuzzer.random.randrange(len(lines) + 1)
        lines[at : at + fuzzer.random.randrange(2)] = [fuzzer.random.choice(theirs)]
        files[name] = b"".join(lines)


def _edit_field(fuzzer: Fuzzer, files: Files, special: list[tuple[str, str]]) -> None:
    """A line that is as good as before but says something else."""
    name, lines = fuzzer.lines(files)
    if not lines:
        return
    at = fuzzer.random.randrange(len(lines))
    whole = name.endswith(".json")
    try:
        record = json.loads(files[name] if whole else lines[at])
    except (ValueError, RecursionError):
        return
    if not isinstance(record, dict) or not record:  # what an earlier step made of it
        return
    key = fuzzer.random.choice(sorted(record))
    record[key] = (
        fuzzer.random.choice(_VALUES) if fuzzer.random.random() < 0.6 else _nudged(record[key])
    )
    if fuzzer.random.random() < 0.1:
        del record[key]
    data = json.dumps(record, separators=(",", ":")).encode() + b"\n"
    if whole:
        files[name] = data
    else:
        lines[at] = data
        files[name] = b"".join(lines)


def _deep(fuzzer: Fuzzer, files: Files, special: list[tuple[str, str]]) -> None:
    name, lines = fuzzer.lines(files)
    lines.insert(
        fuzzer.random.randrange(len(lines) + 1), b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    )
    files[name] = b"".join(lines)


def _junk(fuzzer: Fuzzer, files: Files, special: list[tuple[str, str]]) -> None:
    name, lines = fuzzer.lines(files)
    lines.insert(fuzzer.random.randrange(len(lines) + 1), fuzzer.random.choice(_JUNK))
    files[name] = b"".join(lines)


def _special(fuzzer: Fuzzer, files: Files, special: list[tuple[str, str]]) -> None:
    name = fuzzer.choose(fuzzer.files)
    if name not in dict(special):
        special.append((name, fuzzer.random.choice(("fifo", "folder", "device", "link"))))


def _foreign(fuzzer: Fuzzer, files: Files, special: list[tuple[str, str]]) -> None:
    """A file that is not the run's: nobody may care."""
    name = fuzzer.random.choice(
        ("notes.jsonl", "series.jsonl", "samples.jsonl.orphan-1", "report.md", "raw/x/1/stdout")
    )
    files[name] = fuzzer.others["cpp.jsonl"]


def _nudged(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value * 10 + 1
    return f"{value}x" if isinstance(value, str) else None


_VALUES: list[Any] = [
    None,
    0,
    -1,
    10**30,
    1e308,
    True,
    "",
    "x",
    "../../etc/passwd",
    "\x1b[31m",
    [],
    {},
    [[]],
    "9" * 5000,
    {"a": {"b": 1}},
]
_JUNK = [
    b"\n",
    b"{}\n",
    b"null\n",
    b"\xff\xfe\n",
    b"[1]\n",
    b'{"schema":2}\n',
    b'{"schema":1e999}\n',
    b'{"schema":"2"}\n',
    b"\x00" * 50,
]
MUTATIONS: list[Mutation] = [
    *[
        _drop_line,
        _double_line,
        _swap_lines,
        _flip_byte,
        _cut_bytes,
        _edit_field,
        _truncate,
        _truncate_lines,
    ]
    * 3,
    *[
        _double_bytes,
        _zeros,
        _truncate_all,
        _remove,
        _of_other,
        _several_of_other,
        _line_of_other,
        _junk,
    ]
    * 2,
    _special,
    _foreign,
    _deep,
]
