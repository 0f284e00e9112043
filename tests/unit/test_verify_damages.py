"""``cnibench verify``: each kind of damage has its name and its file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit._call import call


def _lines(
    change: Callable[[list[bytes]], list[bytes]], name: str = "samples.jsonl"
) -> Callable[[Path], None]:
    def damage(run: Path) -> None:
        lines = (run / name).read_bytes().splitlines(keepends=True)
        (run / name).write_bytes(b"".join(change(lines)))

    return damage


def _bytes(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def damage(run: Path) -> None:
        (run / name).write_bytes(change((run / name).read_bytes()))

    return damage


def _remove(pattern: str) -> Callable[[Path], None]:
    return lambda run: sorted(run.glob(pattern))[0].unlink()


DAMAGES: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "lost line": (_lines(lambda lines: lines[:4] + lines[5:]), "lost", "samples.jsonl"),
    "changed line": (
        _lines(lambda lines: [*lines[:4], lines[4].replace(b"1500", b"9000"), *lines[5:]]),
        "changed",
        "samples.jsonl",
    ),
    "doubled line": (
        _lines(lambda lines: [*lines[:5], lines[4], *lines[5:]]),
        "doubled",
        "samples.jsonl",
    ),
    "swapped lines": (
        _lines(lambda lines: [*lines[6:8], *lines[:6], *lines[8:]]),
        "out of order",
        "samples.jsonl",
    ),
    "added line": (
        _lines(lambda lines: [*lines, lines[0].replace(b'"block":0', b'"block":7')]),
        "not chained",
        "samples.jsonl",
    ),
    "lost last newline": (_bytes("samples.jsonl", lambda data: data[:-1]), "lost", "samples.jsonl"),
    "lost end": (_lines(lambda lines: lines[:-3]), "lost", "samples.jsonl"),
    "lost records": (_remove("cpp.jsonl"), "lost", "cpp.jsonl"),
    "lost attestation": (
        _lines(lambda lines: lines[1:], "attestations.jsonl"),
        "lost",
        "attestations.jsonl",
    ),
    "lost event": (
        _lines(lambda lines: lines[:9] + lines[10:], "events.jsonl"),
        "lost",
        "events.jsonl",
    ),
    "changed event": (
        _lines(
            lambda lines: [*lines[:-1], lines[-1].replace(b'"failed":0', b'"failed":1')],
            "events.jsonl",
        ),
        "changed",
        "events.jsonl",
    ),
    "doubled event": (
        _lines(lambda lines: [*lines[:9], lines[8], *lines[9:]], "events.jsonl"),
        "doubled",
        "events.jsonl",
    ),
    "swapped events": (
        _lines(lambda lines: [*lines[:9], lines[10], lines[9], *lines[11:]], "events.jsonl"),
        "out of order",
        "events.jsonl",
    ),
    "lost end of events": (
        _lines(lambda lines: lines[:-1], "events.jsonl"),
        "lost",
        "events.jsonl",
    ),
    "lost events": (_remove("events.jsonl"), "lost", "events.jsonl"),
    "changed plan": (
        _bytes("plan.json", lambda data: data.replace(b'"seed": 1', b'"seed": 2')),
        "changed",
        "plan.json",
    ),
    "changed environment": (
        _bytes("env.json", lambda data: data.replace(b"6.1", b"6.2")),
        "changed",
        "env.json",
    ),
    "lost environment": (_remove("env-2.json"), "lost", "env-2.json"),
    "changed seal": (_bytes("seal.json", lambda data: b"{}"), "changed", "seal.json"),
    "lost raw file": (_remove("raw/*/0/stdout"), "lost", "raw/"),
    "changed raw file": (
        lambda run: sorted(run.glob("raw/*/1/stdout"))[0].write_bytes(b"x"),
        "changed",
        "raw/",
    ),  # type: ignore[dict-item]
}


@pytest.mark.parametrize("name", DAMAGES)
def test_each_damage_is_named(run: Path, name: str) -> None:
    damage, kind, file = DAMAGES[name]
    assert call(["verify", str(run)]).exit_code == 0
    damage(run)
    told = call(["verify", str(run), "--json"])
    assert told.exit_code == 1
    found = json.loads(told.stdout)["problems"]
    assert any(problem["kind"] == kind and problem["file"].startswith(file) for problem in found), (
        found
    )
    shown = call(["verify", str(run)])
    assert shown.exit_code == 1
    assert shown.stdout.startswith("problem: ")
