"""A bundle's files that were changed under a right seal, without a signature."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit._bundles import (
    Files,
    Record,
    document,
    edited,
    lines,
    put,
    rechained,
    refusal,
    with_lines,
)
from tests.unit._tampering import ENV, EVENTS, FILES, PLAN, SAMPLES, factor, without


def line(name: str, at: int, **change: Any) -> Callable[[], Files]:
    return lambda: edited(FILES, name, lambda one: one | change, at)


def order(name: str, change: Callable[[list[Record]], list[Record]]) -> Callable[[], Files]:
    return lambda: with_lines(FILES, name, change(lines(FILES, name)))


CONTENTS: dict[str, tuple[Callable[[], Files], str]] = {
    "a better value": (line(SAMPLES, 0, value=9e12), "samples.jsonl.*changed"),
    "a value's last digit": (
        lambda: edited(FILES, SAMPLES, lambda one: factor(one, 1 + 1e-15), 3),
        "samples.jsonl.*changed",
    ),
    "a value removed": (line(SAMPLES, 0, value=None), "samples.jsonl.*changed"),
    "a sample deleted": (order(SAMPLES, lambda all: all[1:]), "samples.jsonl.*lost"),
    "the last sample deleted": (order(SAMPLES, lambda all: all[:-1]), "samples.jsonl.*lost"),
    "half of the samples deleted": (order(SAMPLES, lambda all: all[::2]), "samples.jsonl.*lost"),
    "a sample twice": (order(SAMPLES, lambda all: [all[0], *all]), "samples.jsonl.*doubled"),
    "a sample invented": (order(SAMPLES, lambda all: [*all, all[0]]), "samples.jsonl"),
    "samples in another order": (order(SAMPLES, lambda all: all[::-1]), "samples.jsonl"),
    "two samples swapped": (
        order(SAMPLES, lambda all: [all[1], all[0], *all[2:]]),
        "samples.jsonl",
    ),
    "all samples removed": (order(SAMPLES, lambda all: []), "samples.jsonl.*lost"),
    "no file of samples": (without(SAMPLES), "samples.jsonl.*lost"),
    "another label": (line(SAMPLES, 0, label="winner"), "samples.jsonl.*changed"),
    "another metric": (line(SAMPLES, 0, metric="retransmits"), "samples.jsonl.*changed"),
    "another block": (line(SAMPLES, 0, block=99), "samples.jsonl.*lost"),
    "a failure made up": (line(SAMPLES, 0, status="failed"), "samples.jsonl.*changed"),
    "a disturbance made up": (line(SAMPLES, 0, disturbed="noise"), "samples.jsonl.*changed"),
    "another time": (line(SAMPLES, 0, end="2026-01-01T00:00:00.000000Z"), "samples.jsonl.*changed"),
    "a blank in a line": (
        lambda: FILES | {SAMPLES: FILES[SAMPLES].replace(b":", b": ", 1)},
        "samples.jsonl.*changed",
    ),
    "the last newline lost": (lambda: FILES | {SAMPLES: FILES[SAMPLES][:-1]}, "samples.jsonl"),
    "another seed": (lambda: document(FILES, PLAN, seed=1), "plan.json.*changed"),
    "another command": (lambda: document(FILES, PLAN, command=["cnibench"]), "plan.json.*changed"),
    "another run id": (lambda: document(FILES, PLAN, id="other"), "plan.json.*changed"),
    "fewer blocks planned": (lambda: document(FILES, PLAN, blocks=1), "plan.json.*changed"),
    "no cells": (lambda: document(FILES, PLAN, cells=[]), "plan.json.*changed"),
    "no plan": (without(PLAN), "plan.json"),
    "a plan that is no JSON": (lambda: FILES | {PLAN: b"{"}, "plan.json: not JSON"),
    "a plan nested too deeply": (lambda: FILES | {PLAN: b"[" * 100_000}, "plan.json"),
    "a plan of a newer version": (lambda: document(FILES, PLAN, schema=99), "newer cnibench"),
    "a plan without end": (lambda: document(FILES, PLAN, blocks=10**9), "plan.json"),
    "another kernel": (lambda: document(FILES, ENV, kernel="6.99.0"), "env.json.*changed"),
    "another CPU": (lambda: document(FILES, ENV, cpu_model="Intel"), "env.json.*changed"),
    "no environment": (without(ENV), "env.json.*lost"),
    "a second environment": (lambda: FILES | {"env-2.json": FILES[ENV]}, "no event commits it"),
    "the first event deleted": (order(EVENTS, lambda all: all[1:]), "events.jsonl|plan.json"),
    "an event deleted": (order(EVENTS, lambda all: all[:4] + all[5:]), "events.jsonl.*lost"),
    "the last event deleted": (order(EVENTS, lambda all: all[:-1]), "had finished|not finished"),
    "an event twice": (order(EVENTS, lambda all: [*all[:5], *all[4:]]), "events.jsonl.*doubled"),
    "two events swapped": (
        order(EVENTS, lambda all: [*all[:3], all[4], all[3], *all[5:]]),
        "events.jsonl.*(order|lost)",
    ),
    "an event's time": (line(EVENTS, 2, time="2020-01-01T00:00:00Z"), "events.jsonl.*changed"),
    "an event's hash": (line(EVENTS, 2, sha256="0" * 64), "events.jsonl.*changed"),
    "no events": (without(EVENTS), "."),
    "no event but empty": (lambda: FILES | {EVENTS: b""}, "."),
    "events of a newer version": (
        lambda: rechained(edited(FILES, EVENTS, lambda one: one | {"schema": 99}, 3)),
        "newer cnibench",
    ),
    "a run without a chain": (
        lambda: document(
            edited(FILES, EVENTS, lambda one: {"schema": 1, "time": "", "event": "x"}),
            PLAN,
            schema=1,
        ),
        "no chain of hashes",
    ),
    "no seal of the run": (without("seal.json"), "not finished|end is missing"),
    "another seal of the run": (lambda: document(FILES, "seal.json", lines=3), "had finished"),
    "an attestation that passes": (
        line("attestations.jsonl", 0, passed=False),
        "attestations.jsonl.*lost",
    ),
    "other cycles": (line("cpp.jsonl", 0, total=1.0), "cpp.jsonl.*changed"),
    "another stall": (line("stalls.jsonl", 0, others=0.5), "stalls.jsonl.*changed"),
    "a file of lines more": (lambda: FILES | {"extra.jsonl": b"{}\n"}, "no event commits it"),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_changed_contents(name: str, tmp_path: Path) -> None:
    make, words = CONTENTS[name]
    assert re.search(words, refusal(tmp_path, put(make())))
