"""What the run of model and agent adds to a certificate, and the certificate as it is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace as replace_fields

from cnibench.certificates.format import Certificate, Difference, Rate
from cnibench.clusters.lab.fidelity.cluster import AGENT, MODEL
from cnibench.clusters.lab.fidelity.drawn_chains import renamed
from cnibench.model.units import plural
from cnibench.rundir.reader import RunReader

_SHOWN = 6  # lines of each side of a difference


def with_run(certificate: Certificate, run: RunReader, chains: Mapping[str, str]) -> Certificate:
    """With what the run says: the ways of packets, and the rates. ``chains`` are the names that the
    agent drew, and the model's.
    """
    packets, differences = _packets(run, chains)
    rates, notes = _rates(run)
    return replace_fields(
        certificate,
        packets=packets,
        differences=[*certificate.differences, *differences],
        rates=rates,
        notes=[*certificate.notes, *notes],
    )


def _packets(run: RunReader, chains: Mapping[str, str]) -> tuple[list[str], list[Difference]]:
    """(the packets that were followed through both, where the rules that they met differ)."""
    found: dict[str, dict[str, list[str]]] = {}
    for record in run.records("rulepath"):
        packet = f"{record['placement']}, {record['packet']} packet"
        found.setdefault(packet, {})[record["label"]] = renamed(
            _way(record["nodes"]), chains if record["label"] == AGENT else {}
        )
    both = {packet: ways for packet, ways in found.items() if {MODEL, AGENT} <= ways.keys()}
    return sorted(both), [
        Difference(place=packet, part="rules met", expected=ways[MODEL], found=ways[AGENT])
        for packet, ways in sorted(both.items())
        if ways[MODEL] != ways[AGENT]
    ]


def _way(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each chain that the packet meets, on the client's node and on the server's."""
    return [
        f"{node} {hook['hook']}: {chain['family']} {chain['table']} {chain['chain']}:"
        f" {chain['evaluated']} rules, {chain['matched']} match"
        for node, one in zip(("client's node", "server's node"), nodes, strict=True)
        for hook in one["path"]
        for chain in hook["chains"]
    ]


def _rates(run: RunReader) -> tuple[list[Rate], list[str]]:
    """(the ratios agent to model of the workloads' main metrics, why figures are missing)."""
    from cnibench.analysis.build import analyse

    analysis = analyse([run], baseline=MODEL)
    rates = []
    for pair in analysis.pairs:
        if pair.reading or {pair.a, pair.b} != {MODEL, AGENT} or pair.workload == "rule-path":
            continue
        if pair.metric != analysis.main.get(pair.workload):
            continue
        values = (pair.ratio, pair.ci_low, pair.ci_high)
        if pair.a == MODEL:
            inverse = [None if value is None else 1 / value for value in values]
            values = (inverse[0], inverse[2], inverse[1])
        rates.append(
            Rate(
                workload=pair.workload,
                placement=pair.placement,
                metric=pair.metric,
                n=pair.n,
                ratio=values[0],
                ci_low=values[1],
                ci_high=values[2],
            )
        )
    failed = dict.fromkeys(f"{one.label}: {one.reason}" for one in analysis.failures)
    return rates, list(failed)


def show(certificate: Certificate, path: Path, run: Path | None) -> None:
    """The certificate on stdout."""
    agent = certificate.agent
    click.echo(
        f"{certificate.profile}: {plural(len(certificate.differences), 'difference')} between the"
        f" model and {agent.name} {agent.version} ({agent.sha256[:12]}), on Linux"
        f" {certificate.kernel}"
    )
    click.echo(
        f"compared: {certificate.lines} lines of the kernel's state"
        + (f"; the rules met by: {'; '.join(certificate.packets)}" if certificate.packets else "")
    )
    click.echo(f"not compared: {'; '.join(certificate.apart)}")
    for one in certificate.differences:
        click.echo(f"{one.place}, {one.part}:")
        for sign, lines in (("-", one.expected), ("+", one.found)):
            for line in lines[:_SHOWN]:
                click.echo(f"  {sign} {line}")
            if len(lines) > _SHOWN:
                click.echo(f"  {sign} and {len(lines) - _SHOWN} more")
    if certificate.differences:
        click.echo("-: only in the model, +: only with the agent")
    for rate in certificate.rates:
        click.echo(f"{rate.workload}, {rate.placement}: {_ratio(rate)} of the model's rate")
    for note in certificate.notes:
        click.echo(f"note: {note}")
    click.echo(f"certificate: {path}")
    if run:
        click.echo(f"run: {run}")


def _ratio(rate: Rate) -> str:
    if rate.ratio is None:
        return f"no ratio (n={rate.n})"
    if rate.ci_low is None or rate.ci_high is None:
        return f"{rate.ratio:.3f} (n={rate.n})"
    return f"{rate.ratio:.3f} [{rate.ci_low:.3f}, {rate.ci_high:.3f}] (n={rate.n})"
