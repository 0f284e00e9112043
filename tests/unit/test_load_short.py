"""Reports say where the background load fell short of what was asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from cnibench.analysis.build import analyse
from cnibench.analysis.model import Analysis
from cnibench.model.cell import Cell, Window
from cnibench.reports.text import PROVIDER as TEXT
from cnibench.run.provenance import Provenance, failure
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import now
from cnibench.rundir.writer import RunWriter
from tests._manifest import manifest

Loads = Mapping[
    tuple[str, int], Sequence[float | None]
]  # (label, connections) to what was sent in each block, bit/s
RATE = 50e6


def written(
    folder: Path,
    loads: Loads,
    *,
    window: Window = "speed",
    broken: bool = False,
    **params: Sequence[int],
) -> RunReader:
    """A run that the store has written: its transaction rates are alike, its background load is as
    given.
    """
    cells = [
        (
            Cell(
                label=label,
                profile=label,
                placement="intra",
                workload="tcp-rr-under-load",
                window=window,
                params={
                    "connections": connections,
                    "pods": 0,
                    "rate": 0.0,
                    **dict(zip(params, rest, strict=True)),
                },
            ),
            achieved,
        )
        for (label, connections), achieved in loads.items()
        for rest in (zip(*params.values(), strict=True) if params else [()])
    ]
    plan = manifest([cell for cell, _ in cells], id=folder.name, blocks=3)
    with RunWriter.create(folder, plan) as writer:
        writer.event("run-started")
        writer.environment({"kernel": "6.1"})
        for cell, achieved in cells:
            for block, value in enumerate(achieved):
                line = failure(
                    cell,
                    block,
                    Provenance("lab", "veth", "plain", "datapath-model"),
                    "ok",
                    "",
                    now(),
                )[0]
                line = msgspec.structs.replace(
                    line, metric="transaction_rate", unit="1/s", better="higher", value=1e4 + block
                )
                connections = cell.params["connections"]
                load: dict[str, Any] = {
                    "connections": connections,
                    "pairs": min(connections, 49),
                    "asked": connections * RATE,
                }
                writer.finish(
                    cell,
                    block,
                    [line],
                    [("background", {**load, **({} if broken else {"achieved": value})})],
                )
        writer.event("run-finished")
    return RunReader(folder)


def notes(analysis: Analysis) -> list[str]:
    return [note for note in analysis.notes if "background" in note]


def test_a_load_that_fell_short_is_reported_with_what_was_asked_and_sent(tmp_path: Path) -> None:
    loads: Loads = {
        ("flannel", 1): [50e6, 50e6, 50e6],
        ("flannel", 1500): [5e9, 7.5e9, 20e9],
        ("flannel", 500): [10e9, 10e9, 25e9],
        ("cilium", 500): [24e9, 25e9, 2e9],
        ("host", 500): [None, None, None],
    }
    analysis = analyse([written(tmp_path / "run", loads)])
    assert notes(analysis) == [
        "flannel, tcp-rr-under-load on one node: the background load fell short: 500 connections"
        " over 49 pairs of Pods sent 10.0 Gbit/s of the 25.0 Gbit/s asked (40 %, median of 3"
        " blocks); 1500 connections over 49 pairs of Pods sent 7.50 Gbit/s of the 75.0 Gbit/s asked"
        " (10 %, median of 3 blocks); its figures refer to the load that was sent: ask for fewer"
        " connections or a lower rate of each, or measure on more CPUs"
    ]
    assert "7.50 Gbit/s" in TEXT.render(analysis, 100)


def test_cells_that_differ_elsewhere_are_distinguished_and_runs_together(tmp_path: Path) -> None:
    first = written(tmp_path / "1", {("flannel", 1): [10e6]}, request=[1, 1000])
    again = written(tmp_path / "2", {("flannel", 1): [20e6]}, request=[1, 1000], window="speed")
    (told,) = notes(analyse([first, again]))
    for request in (1, 1000):
        assert (
            f"1 connection over 1 pair of Pods, request {request} sent 15.0 Mbit/s of the 50.0"
            " Mbit/s asked (30 %, median of 2 b" in told
        )
    (perf,) = notes(analyse([written(tmp_path / "3", {("flannel", 1): [10e6]}, window="cpp")]))
    assert perf.startswith("flannel, tcp-rr-under-load on one node with perf: ")


def test_a_record_that_cannot_be_used_is_left_out_and_reported(tmp_path: Path) -> None:
    (told,) = notes(analyse([written(tmp_path / "run", {("flannel", 5): [1.0]}, broken=True)]))
    assert "a record of background.jsonl" in told
    assert "has no usable rates" in told
