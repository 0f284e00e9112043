"""The run directory that is mutated: how it is written, and all that can be read of it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cnibench.model.cell import Attestation, Cell
from cnibench.run.provenance import Provenance, failure
from cnibench.rundir.reader import RunReader
from cnibench.rundir.writer import RunWriter
from tests._manifest import manifest
from tests.fuzz.rundir_mutations import Files


@dataclass(frozen=True)
class State:
    """All that can be read of a run."""

    plan: bytes
    samples: tuple[bytes, ...]
    records: dict[str, tuple[bytes, ...]]
    attestations: tuple[bytes, ...]
    environments: bytes
    finished: str


def build(path: Path, seed: int, *, finished: bool) -> None:
    """A run with pairs measured together, a sample measured again, a resumed session, records and
    raw files.
    """
    rng = random.Random(seed)
    cells = [
        Cell(label=label, profile=label, placement="inter", workload=workload, pair=pair)
        for label in ("a", "b")
        for workload in ("tcp-rr", "tcp-stream")
        for pair in (0, 1)
    ]
    plan = manifest(cells, id=f"fuzz-{seed}", name="fuzz", seed=seed, blocks=3)

    def measure(writer: RunWriter, group: list[Cell], block: int, *, fails: bool = False) -> None:
        given = []
        for cell in group:
            (writer.raw(cell, block) / "stdout").write_bytes(rng.randbytes(60))
            line = failure(
                cell, block, Provenance("lab", "veth", "all", "cni"), "failed", "gone", plan.created
            )[0]
            if not fails:
                change = {
                    "metric": "throughput",
                    "unit": "bit/s",
                    "better": "higher",
                    "status": "ok",
                    "reason": "",
                }
                line = msgspec.structs.replace(line, value=rng.random() * 1e9, **change)
            second = msgspec.structs.replace(line, metric="packets", value=rng.random() * 1e6)
            given.append(
                (
                    cell,
                    [line] if fails else [line, second],
                    [] if fails else [("cpp", {"total": rng.random() * 4000})],
                )
            )
        writer.finish_all(given, block)

    groups = [cells[number : number + 2] for number in range(0, len(cells), 2)]
    with RunWriter.create(path, plan) as writer:
        writer.event("run-started")
        writer.environment({"kernel": f"6.{seed}"})
        for label in ("a", "b"):
            checks = [
                Attestation(
                    label=label, profile=label, check=name, expected="1", observed="1", passed=True
                )
                for name in ("mtu", "wire")
            ]
            writer.attestations(checks)
        for block in range(2):
            for number, group in enumerate(groups):
                measure(writer, group, block, fails=(block, number) == (1, 0))
    with RunWriter.resume(path) as writer:
        writer.event("run-resumed")
        writer.environment({"kernel": f"6.{seed}", "again": True})
        measure(writer, groups[0], 1)
        for group in groups if finished else groups[:2]:
            measure(writer, group, 2)
        if finished:
            writer.event("run-finished", failed=0)


def state(reader: RunReader) -> State:
    """Reads everything."""
    return State(
        plan=msgspec.json.encode(reader.plan),
        samples=tuple(msgspec.json.encode(sample) for sample in reader.samples()),
        records={
            name: tuple(msgspec.json.encode(record) for record in reader.records(name))
            for name in reader.record_names()
        },
        attestations=tuple(msgspec.json.encode(item) for item in reader.attestations()),
        environments=msgspec.json.encode(reader.environments),
        finished=reader.finished,
    )


def content_of(found: State) -> bytes:
    """Without what does not follow from the events alone."""
    return msgspec.json.encode([found.plan, found.samples, found.records, found.attestations])


def lines_of(files: Files, name: str) -> list[bytes]:
    return [msgspec.json.encode(msgspec.json.decode(line)) for line in files[name].splitlines()]


def files_of(folder: Path) -> Files:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
