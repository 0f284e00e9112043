"""A real bundle, taken apart and put together again by somebody who knows the format.

tests/golden/bundle/quick.cnibench was written by ``cnibench bundle`` from a run of ``cnibench run
--plan quick`` in the lab (README.md there).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from cnibench.analysis.build import analyse
from cnibench.cpp import attribution, stacks, taxonomy
from cnibench.cpp.stacks import Stack
from cnibench.errors import InputError
from cnibench.model.cell import Attestation, Cell
from cnibench.reports.bundle import container, figures
from cnibench.reports.bundle.verifying import verified
from cnibench.run.provenance import Provenance, failure
from cnibench.rundir import chain
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import now
from cnibench.rundir.writer import RunWriter
from tests._manifest import manifest

GOLDEN = Path(__file__).parents[1] / "golden" / "bundle" / "quick.cnibench"
Files = dict[str, bytes]
Record = dict[str, Any]


def parts(bundle: bytes) -> Files:
    """The files of a bundle."""
    return container.opened(Path("bundle"), bundle)[1]


def put(files: Files, signature: str = "") -> bytes:
    """A bundle of these files whose seal is right."""
    return container.sealed(container.packed(files), signature)


def lines(files: Files, name: str) -> list[Record]:
    return [msgspec.json.decode(line) for line in files[name].splitlines()]


def with_lines(files: Files, name: str, records: list[Record]) -> Files:
    return files | {name: b"".join(msgspec.json.encode(one) + b"\n" for one in records)}


def edited(
    files: Files, name: str, change: Callable[[Record], Record], which: int | None = None
) -> Files:
    """With each line, or that one, as ``change`` makes it."""
    found = lines(files, name)
    return with_lines(
        files, name, [change(one) if which in (None, at) else one for at, one in enumerate(found)]
    )


def document(files: Files, name: str, **change: Any) -> Files:
    return files | {name: msgspec.json.encode(msgspec.json.decode(files[name]) | change)}


def rechained(files: Files) -> Files:
    """All hashes made again, as somebody does who wants his changes to pass."""
    left = {name: files[name].splitlines(keepends=True) for name in files if name != "events.jsonl"}
    at: dict[str, int] = {}
    events = lines(files, "events.jsonl")
    last_named = {name: n for n, one in enumerate(events) for name in one.get("documents", {})}
    written: list[bytes] = []
    before = ""
    seal = (0, "")
    for number, event in enumerate(events):
        for name, segment in event.get("files", {}).items():
            piece = b"".join(left[name][: segment["lines"]])
            del left[name][: segment["lines"]]
            segment |= {"at": at.get(name, 0), "bytes": len(piece), "sha256": chain.digest(piece)}
            at[name] = segment["at"] + len(piece)
        for name in event.get("documents", {}):
            if last_named[name] == number and name in files:
                event["documents"][name] = chain.digest(files[name])
        event = {key: value for key, value in event.items() if key not in ("before", "sha256")}
        line, before = chain.link(event, before or event["documents"]["plan.json"])
        written.append(line + b"\n")
        if event["event"] == "run-finished":
            seal = (number + 1, before)
    sealed = msgspec.json.encode({"lines": seal[0], "sha256": seal[1]})
    return files | {"events.jsonl": b"".join(written), "seal.json": sealed}


def refigured(files: Files) -> Files:
    """All hashes and all figures made again: nothing but a signature is left to tell."""
    files = rechained(files)
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        found = figures.of(analyse([RunReader(folder)]))
    version = figures.VERSION
    return document(files, container.CONTENTS, figures=found, figures_version=version)


def refusal(folder: Path, bundle: bytes, signers: Path | None = None) -> str:
    """Why it is refused, '' when it is accepted. Whatever else is raised is a defect."""
    path = folder / "one.cnibench"
    path.write_bytes(bundle)
    try:
        with verified(path, signers) as (found, _, _):
            return "; ".join(found.problems)
    except InputError as error:
        return error.message if error.remedy else "a defect: it has no remedy"


FACTS: Mapping[str, Any] = {
    "testbed": "lab",
    "wire": "veth",
    "kernel": "6.1.0-9-amd64",
    "architecture": "x86_64",
    "cpu_model": "Synthetic CPU",
    "cpus": 4,
    "cpus_online": 4,
    "memory": 8 << 30,
    "virtualisation": "kvm",
}
# Workload to metric, unit, direction and level; invented, never measured.
WORK: Mapping[str, tuple[str, str, str, float]] = {
    "tcp-rr": ("transaction_rate", "1/s", "higher", 4e4),
    "tcp-stream": ("throughput", "bit/s", "higher", 1e10),
}


def stored(
    path: Path,
    truth: Mapping[str, float],
    *,
    blocks: int = 4,
    noise: float = 0.001,
    seed: int = 1,
    workloads: tuple[str, ...] = ("tcp-rr", "tcp-stream"),
    placements: tuple[str, ...] = ("intra",),
    facts: Mapping[str, Any] | None = None,
    fidelity: str = "datapath-model",
    reason: str = "",
    finished: bool = True,
    cycles: Mapping[str, Sequence[Stack]] | None = None,
    records: Mapping[str, Record] | None = None,
    **more: Any,
) -> RunReader:
    """A run as RunWriter writes it, with invented figures: ``truth`` maps labels to factors.
    ``more`` overrides fields of the manifest; with ``reason`` the last sample has failed.
    ``cycles`` maps labels to the call stacks of windows with perf, of 1000 packets each;
    ``records`` has a record of each name for every other sample.
    """
    rng = np.random.default_rng(seed)
    environment = {**FACTS, **(facts or {})}
    cells = [
        Cell(label=label, profile=label, placement=placement, workload=workload, params={"size": 1})  # type: ignore[arg-type]
        for workload in workloads
        for placement in placements
        for label in truth
    ]
    cells += [
        msgspec.structs.replace(one, window="cpp") for one in cells if one.label in (cycles or {})
    ]
    plan = manifest(cells, **{"id": path.name, "seed": seed, "blocks": blocks, **more})
    provenance = Provenance(environment["testbed"], environment["wire"], "plain", fidelity)
    with RunWriter.create(path, plan) as writer:
        writer.event("run-started")
        writer.environment(environment)
        checks = [
            Attestation(
                label=label, profile=label, check="mtu", expected="1", observed="1", passed=True
            )
            for label in truth
        ]
        writer.attestations(checks)
        for block in range(blocks):
            given = []
            for cell in cells:
                metric, unit, better, level = WORK[cell.workload]
                value = level * truth[cell.label] * float(np.exp(noise * rng.standard_normal()))
                (writer.raw(cell, block) / "stdout").write_bytes(b"of a tool")
                fails = bool(reason) and block == blocks - 1 and cell is cells[-1]
                status, words = ("failed", reason) if fails else ("ok", "")
                line = failure(cell, block, provenance, status, words, now())[0]
                if not fails:
                    change = {"metric": metric, "unit": unit, "better": better}
                    line = msgspec.structs.replace(line, value=value, **change)
                kept = list((records or {}).items())
                if cycles and cell.window == "cpp":
                    record = _cycles(writer.raw(cell, block), cycles[cell.label])
                    kept = [("cpp", record)]
                    change = {"metric": "cycles_per_packet", "unit": "1", "better": "lower"}
                    line = msgspec.structs.replace(line, value=record["total"], **change)
                given.append((cell, [line], kept))
            writer.finish_all(given, block)
        if finished:
            writer.event("run-finished", failed=0)
    return RunReader(path)


def _cycles(raw: Path, found: Sequence[Stack]) -> Record:
    """Writes the stacks as the collector does; its record of them."""
    known = taxonomy.load()
    (raw / "stacks.folded").write_text(stacks.fold(found))
    breakdown = attribution.attribute(found, known)
    return attribution.record(breakdown, 1000, clock=True, version=known.version)
