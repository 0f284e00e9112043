"""A batch of results as a run directory, that report, compare, site, claims and query read like any
other.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cnibench import __version__
from cnibench.errors import InputError
from cnibench.importers.batch import UNKNOWN, Batch, Figure, Result
from cnibench.importers.files import content_of
from cnibench.model import context
from cnibench.model.cell import Cell, Sample
from cnibench.model.metrics import metric
from cnibench.model.profile import builtin
from cnibench.rundir.schema import RAW, Manifest, new_id, now
from cnibench.rundir.writer import RunWriter

FACTS = (
    "testbed",
    "wire",
    "wire_offload",
    "kernel",
    "cpu_model",
    "nic",
    "os",
)  # what the user can add to what the files tell


def write(
    batch: Batch,
    folder: Path,
    form: str,
    command: list[str],
    *,
    name: str = "",
    facts: Mapping[str, str] | None = None,
) -> Path:
    """The new run directory below ``folder``. ``facts`` are what the user knows of the environment.
    Raises InputError.
    """
    if not batch.results:
        raise InputError("there is no result in these files", "name the files that hold results")
    environment = (
        dict.fromkeys(FACTS, UNKNOWN) | {"testbed": "cluster"} | batch.facts | dict(facts or {})
    )
    environment |= {"imported": form, "tool_version": __version__}
    placed = _placed(batch.results)
    cells = {cell.id: cell for cell, _, _ in placed}
    blocks = 1 + max(block for _, block, _ in placed)
    labels = dict.fromkeys(cell.label for cell in cells.values())
    notes = batch.remarks()
    if any(result.start is None for result in batch.results):
        notes.append(
            "the times are those of the import: the files do not contain the time of measurement"
        )
    manifest = Manifest(
        id=new_id(name or form),
        name=name,
        created=now(),
        command=command,
        tool_version=__version__,
        seed=0,
        blocks=blocks,
        duration=batch.duration,
        warmup=0.0,
        cluster="import",
        cells=list(cells.values()),
        max_blocks=max(30, blocks),
        profiles={label: {"title": label, "imported": form} for label in labels},
        notes=notes,
    )
    path = folder / manifest.id
    with RunWriter.create(path, manifest) as writer:
        writer.environment(environment)
        writer.event("run-started", imported=form)
        _keep(batch, path)
        writer.event("kept", folder="imported", raw=writer.hashes("imported"))
        for cell, block, result in placed:
            writer.finish(cell, block, _samples(cell, block, result, environment, manifest.created))
        writer.event("run-finished", failed=sum(not result.figures for result in batch.results))
    return path


def settled(results: list[Result]) -> list[Result]:
    """The same results; a failed one whose output does not tell some of its parameters
    (``untold``) gets them from the measured ones of the same test, if all of these agree.
    """
    cells: dict[tuple[Any, ...], list[Result]] = {}  # at most two different ones each
    for untold in {one.untold for one in results if one.untold}:
        for one in results:
            for ip in {0, one.ip} if one.figures else ():
                alike = cells.setdefault(_test(one, untold, ip), [])
                if len(alike) < 2 and not any(_same(one, other) for other in alike):
                    alike.append(one)
    return [_told(one, cells) if one.untold else one for one in results]


def _test(one: Result, untold: tuple[str, ...], ip: int) -> tuple[Any, ...]:
    told = {name: value for name, value in one.params.items() if name not in untold}
    where = (one.label, one.placement, one.path, one.workload)
    return *where, untold, ip, json.dumps(told, sort_keys=True, default=str)


def _same(one: Result, other: Result) -> bool:
    return (one.params, one.ip, one.duration) == (other.params, other.ip, other.duration)


def _told(failed: Result, cells: Mapping[tuple[Any, ...], list[Result]]) -> Result:
    alike = cells.get(_test(failed, failed.untold, failed.ip), [])
    if len(alike) != 1:
        return failed
    (one,) = alike
    return replace(failed, params=one.params, ip=one.ip, duration=one.duration)


def _placed(results: list[Result]) -> list[tuple[Cell, int, Result]]:
    """Each result with its cell and block, in the order of blocks. Raises InputError when two
    results claim one place.
    """
    seen: dict[str, int] = {}
    durations: dict[str, float | None] = {}
    taken: set[tuple[str, int]] = set()
    found = []
    for result in settled(results):
        cell = Cell(
            label=result.label,
            profile=result.label,
            placement=result.placement,  # type: ignore[arg-type]
            workload=result.workload,
            params=dict(result.params),
            path=result.path,
            ip=result.ip,
            mtu=result.mtu,
            cpus=UNKNOWN,
            duration=result.duration or None,
        )
        if (first := durations.setdefault(cell.id, cell.duration)) != cell.duration:
            raise InputError(
                f"{result.file}: {result.label} {result.workload} was measured for {first or 0:g} s"
                f" and for {cell.duration or 0:g} s",
                "import them separately: figures of different durations are never pooled",
            )
        block = seen.get(cell.id, 0) if result.repeat is None else result.repeat
        seen[cell.id] = block + 1
        if (cell.id, block) in taken:
            raise InputError(
                f"{result.file}: a second result of {result.label} {result.workload} in repeat"
                f" {block + 1}",
                "import it separately",
            )
        taken.add((cell.id, block))
        found.append((cell, block, result))
    return sorted(found, key=lambda item: item[1])


def _samples(
    cell: Cell, block: int, result: Result, environment: Mapping[str, Any], created: str
) -> list[Sample]:
    start = created if result.start is None else _rfc3339(result.start, created)
    end = start if result.end is None else _rfc3339(result.end, start)
    fidelity = (
        "baseline" if getattr(builtin().get(cell.profile), "cni", "") == "none" else result.fidelity
    )

    def line(one: Figure | None) -> Sample:
        kind = metric(one.metric) if one else None
        missing = one is None or one.value is None
        return Sample(
            **context.of_cell(cell) | {"params": cell.params | dict(one.params if one else {})},
            cell=cell.id,
            block=block,
            testbed=str(environment["testbed"]),
            wire=str(environment["wire"]),
            wire_offload=str(environment["wire_offload"]),
            metric=kind.name if kind else "",
            value=one.value if one else None,
            unit=kind.unit if kind else "",
            better=kind.better if kind else "",
            fidelity=fidelity,
            status="failed" if missing else "ok",
            reason=(one.reason if one else result.reason) if missing else "",
            start=start,
            end=end,
            duration=cell.duration,
        )

    return [line(one) for one in result.figures] or [line(None)]


def _rfc3339(seconds: float, otherwise: str) -> str:
    try:
        return (
            datetime.fromtimestamp(seconds, UTC)
            .isoformat(timespec="microseconds")
            .replace("+00:00", "Z")
        )
    except (OverflowError, OSError, ValueError):
        return otherwise


def _keep(batch: Batch, path: Path) -> None:
    """A copy of every file, numbered in their order, so that a later version can read them again;
    only its owner may read it.
    """
    kept = path / RAW / "imported"
    try:
        kept.parent.mkdir(mode=0o700, exist_ok=True)
        kept.mkdir(mode=0o700)
        for at, file in enumerate(dict.fromkeys(result.file for result in batch.results), 1):
            name = re.sub(r"[^A-Za-z0-9_.-]", "_", file.name)[-80:]
            target = os.open(kept / f"{at:04d}-{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(target, "wb") as copy:
                copy.write(content_of(file, batch.root))
    except OSError as error:
        raise InputError(
            f"{kept}: {error.strerror or error}", "give --folder a folder that can be written"
        ) from None
