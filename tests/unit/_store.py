"""Cells and samples that the tests of the store write."""

from __future__ import annotations

import msgspec

from cnibench.model.cell import Cell, Sample
from cnibench.run.provenance import Provenance, failure
from cnibench.rundir.schema import now
from cnibench.rundir.writer import RunWriter
from tests._manifest import manifest

CELLS = [
    Cell(label="a", profile="a", placement="inter", workload="tcp-rr", pair=pair) for pair in (0, 1)
]
MANIFEST = manifest(CELLS, blocks=3)


def cell(label: str = "flannel", **more: object) -> Cell:
    return msgspec.structs.replace(
        Cell(label=label, profile="flannel", placement="inter", workload="tcp-rr"), **more
    )


def sample(of: Cell, block: int, value: float | None = 1.5, reason: str = "") -> Sample:
    line = failure(
        of,
        block,
        Provenance("lab", "veth", "all", "baseline"),
        "failed" if reason else "ok",
        reason,
        now(),
    )[0]
    return msgspec.structs.replace(
        line, metric="throughput", unit="bit/s", better="higher", value=value
    )


def measure(writer: RunWriter, block: int) -> None:
    """One block of CELLS, with records and raw files."""
    given = []
    for cell in CELLS:
        writer.room()
        (writer.raw(cell, block) / "stdout").write_bytes(b"of a tool")
        provenance = Provenance("lab", "veth", "all", "cni")
        lines = failure(cell, block, provenance, "failed", "gone", MANIFEST.created)
        given.append((cell, lines, [("cpp", {"total": 1.0})]))
    writer.finish_all(given, block)
