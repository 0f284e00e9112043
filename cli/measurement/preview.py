"""What a run is about to do, before it does it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from cnibench.analysis.comparison.levels import planned_looks
from cnibench.cli.measurement.request import Request
from cnibench.cli.output.printing import print_json, print_table
from cnibench.model.cell import Cell
from cnibench.model.units import duration, human, plural
from cnibench.planning.forecast import expected_bytes, expected_seconds, passes, whole
from cnibench.run.progress import words
from cnibench.run.slices.priority import refusal
from cnibench.rundir.schema import Manifest
from cnibench.testbed.capabilities.consent import Consent


def _forecast(request: Request) -> tuple[list[tuple[Cell, int]], float]:
    """All samples, each (cell, block), and the seconds that they take."""

    manifest = request.manifest
    samples = passes(manifest.cells, manifest.blocks)
    cluster = request.cluster
    return samples, whole(
        samples,
        request.workloads,
        manifest.duration,
        manifest.warmup,
        cluster,
        request.profiles,
        manifest.deployment_blocks or 1,
    )


def _about(request: Request, seconds: float) -> str:
    """The time that a plan takes, in words."""
    rest = (
        "plus the installation and attestation of the profiles"
        if request.cluster.simultaneous
        else "including the installation and attestation of the profiles"
    )
    return f"about {duration(seconds)}, {rest}"


def expect(request: Request) -> None:
    """The time that a plan takes, before it starts."""
    samples, seconds = _forecast(request)
    click.echo(f"{plural(len(samples), 'sample')}, {_about(request, seconds)}", err=True)


def preview(request: Request) -> list[str]:
    """What the cluster says of what is about to be done, and what making and removing the profiles
    costs. Raises UsageError.
    """

    manifest = request.manifest
    measured = [cell for cell, _ in passes(manifest.cells, manifest.blocks)]
    cluster = request.cluster
    windows = expected_seconds(
        measured, request.workloads, manifest.duration, manifest.warmup, cluster.pod_seconds
    )
    lines = list[str]()
    if isinstance(cluster, Consent):
        volume = expected_bytes(measured, request.workloads, manifest.duration)
        lines += cluster.preview(request.profiles, windows, volume)
    making = sum(cluster.seconds(profile) for profile in request.profiles.values())
    if making:
        often = math.ceil(manifest.blocks / (manifest.deployment_blocks or 1))
        times = (
            f"{len(request.profiles)} x {often} times"
            if often > 1
            else f"{len(request.profiles)} times"
        )
        lines.append(
            f"installing, attesting and removing, {times}: about {duration(making * often)}"
        )
    return lines


def _blocks(manifest: Manifest) -> str:
    """``7 blocks``, or ``2 to 7 blocks`` where cells have numbers of their own."""
    numbers = {min(cell.blocks or manifest.blocks, manifest.blocks) for cell in manifest.cells}
    if len(numbers) > 1:
        return f"{min(numbers)} to {max(numbers)} blocks"
    return plural(manifest.blocks, "block")


def show(request: Request, as_json: bool) -> None:
    """What --dry-run prints."""

    manifest = request.manifest
    samples, seconds = _forecast(request)
    volume = expected_bytes((cell for cell, _ in samples), request.workloads, manifest.duration)
    if as_json:
        print_json(
            {
                "schema": 1,
                "cells": [{"id": cell.id, **_fields(cell)} for cell in manifest.cells],
                "blocks": manifest.blocks,
                "samples": len(samples),
                "seconds": seconds,
                "bytes": volume,
                "planned": manifest.planned,
                "seed": manifest.seed,
                "facts": manifest.facts,
                "unsupported": manifest.unsupported,
                "notes": manifest.notes,
            }
        )
        return
    print_table(
        ("cell", "CPUs", "MTU"),
        [(words(cell), cell.cpus, str(cell.mtu)) for cell in manifest.cells],
    )
    most = ""
    if manifest.target_ci:
        most = f" (up to {manifest.max_blocks} blocks, until ±{manifest.target_ci:.1%})"
    elif len(looks := planned_looks(manifest)) > 1 and manifest.until_decided:
        early = " or ".join(map(str, looks[:-1]))
        most = f" (fewer if every pair is decided after {early})"
    click.echo(
        f"{plural(len(manifest.cells), 'cell')} x {_blocks(manifest)}{most} ="
        f" {plural(len(samples), 'sample')}, seed {manifest.seed}"
    )
    refused = refusal() if request.cluster.manages_nodes else ""
    click.echo(f"priority: {_priorities(manifest.cells, refused)}")
    click.echo(f"time: {_about(request, seconds)}")
    if manifest.budget:
        click.echo(f"budget: {duration(manifest.budget)}; no block is started that would end later")
    click.echo(f"traffic: at most about {human(volume, 'B')}" if volume else "traffic: little")
    for one in manifest.unsupported:
        click.echo(f"not measured: {one.label}: {one.lacks}; {one.remedy}")
    for note in manifest.notes:
        click.echo(f"note: {note}")


def _priorities(cells: Sequence[Cell], refused: str) -> str:
    """Of clients and servers: ``normal``, or ``real-time in slices, normal in windows``.
    ``refused`` is why the kernel gives no real-time priority, '' where it does.
    """
    found = {cell.method: cell.priority or cell.usual_priority for cell in cells}
    if refused and "real-time" in found.values():
        return f"normal, as {refused}"
    if len(set(found.values())) == 1:
        return found[cells[0].method]
    return ", ".join(f"{priority} in {method}" for method, priority in sorted(found.items()))


def _fields(cell: Cell) -> dict[str, Any]:
    return msgspec.structs.asdict(cell) | {"priority": cell.priority or cell.usual_priority}


def warn(request: Request) -> None:
    """What of a run that begins now is not as it was asked for."""
    absent = [
        f"{one.label} is not measured: {one.lacks}; {one.remedy}"
        for one in request.manifest.unsupported
    ]
    for warning in (*request.warnings, *absent):
        click.echo(f"warning: {warning}", err=True)
