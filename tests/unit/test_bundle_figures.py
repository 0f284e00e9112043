"""A bundle's figures that are not what its samples give, under a right seal without a signature."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cnibench.analysis.build import analyse
from cnibench.reports.bundle import container, figures
from tests.unit._bundles import Files, document, put, refusal
from tests.unit._runs import synthetic
from tests.unit._tampering import FILES, without


def figure(change: Callable[[list[Any]], None], **more: Any) -> Callable[[], Files]:
    def make() -> Files:
        found = msgspec.json.decode(FILES[container.CONTENTS])["figures"]
        change(found)
        return document(FILES, container.CONTENTS, figures=found, **more)

    return make


def set_row(what: str, at: int, value: Any) -> Callable[[list[Any]], None]:
    def change(found: list[Any]) -> None:
        rows = found[0][what]
        (rows[0] if isinstance(rows, list) else next(iter(rows.values())))[at] = value

    return change


FIGURES: dict[str, tuple[Callable[[], Files], str]] = {
    "a median of its own": (figure(set_row("labels", 2, 1e12)), "the samples give"),
    "a mean of its own": (figure(set_row("labels", 1, 1e12)), "the samples give"),
    "an interval of its own": (figure(set_row("labels", 3, 1.0)), "the samples give"),
    "more blocks than there are": (figure(set_row("labels", 0, 1000)), "the samples give"),
    "a ratio of its own": (figure(set_row("pairs", 3, 2.0)), "the samples give"),
    "a p of its own": (figure(set_row("pairs", 6, 1e-6)), "the samples give"),
    "a verdict of its own": (figure(set_row("pairs", 8, "b-better-by-far")), "the samples give"),
    "a figure true instead of 1": (figure(set_row("labels", 5, True)), "the samples give"),
    "a figure without a number": (figure(set_row("labels", 2, None)), "the samples give"),
    "a pair left out": (figure(lambda all: all[0]["pairs"].pop()), "the samples give"),
    "a label left out": (figure(lambda all: all[0]["labels"].popitem()), "missing"),
    "a label more": (figure(lambda all: all[0]["labels"].update(x=[])), "not among those"),
    "a place left out": (figure(lambda all: all.pop()), "the samples give"),
    "no figures": (figure(lambda all: all.clear()), "the samples give"),
    "figures of another run": (figure(lambda all: None, run="other"), "is of the run"),
    "figures of an unknown version": (
        figure(lambda all: None, figures_version=7),
        "written by a newer cnibench",
    ),
    "figures of version 0": (figure(lambda all: None, figures_version=0), "there is no"),
    "contents of a future schema": (figure(lambda all: None, schema=99), "newer cnibench"),
    "contents of schema 0": (figure(lambda all: None, schema=0), "there is no"),
    "another key beside the figures": (figure(lambda all: None, note="x"), "cannot be read"),
    "figures with a blank more": (
        lambda: FILES | {container.CONTENTS: FILES[container.CONTENTS].replace(b":", b": ", 1)},
        "not in the form that cnibench writes",
    ),
    "no file of figures": (without(container.CONTENTS), "bundle.json: it cannot be read"),
}


@pytest.mark.parametrize("name", FIGURES)
def test_changed_figures(name: str, tmp_path: Path) -> None:
    make, words = FIGURES[name]
    assert re.search(words, refusal(tmp_path, put(make())))


@pytest.mark.parametrize(
    "given",
    [
        {"blocks": 4},  # the additive model
        {"blocks": 12},
        {"blocks": 12, "until_decided": True},
        {"blocks": 30, "until_decided": True, "noise": 0.001, "fail": [("same", 3)]},
    ],
)
def test_what_bundles_state_is_what_reports_say(given: dict[str, Any], tmp_path: Path) -> None:
    truth = {"veth-baseline": 1.0, "same": 1.0, "equal": 1.0, "slow": 0.9}
    run = synthetic(tmp_path, truth, **given)
    whole, stated = analyse([run]), analyse([run], only_stated=True)
    assert stated.pairs
    assert figures.of(stated) == figures.of(whole)
