"""``offload --verify``: what a NIC's tunnel offload is worth, measured with it on and off."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnibench.cli.output.printing import print_json, print_table
from cnibench.errors import ClusterError, MissingError, UsageError
from cnibench.testbed.cluster_options import ClusterOptions

if TYPE_CHECKING:
    from cnibench.offload.verify import Stream, Verified
    from cnibench.testbed.cluster import Cluster, Problem


@dataclasses.dataclass(frozen=True)
class Asked:
    """What --verify is to do; ``duration`` in s of each measurement."""

    cni: str
    blocks: int
    duration: float
    seed: int
    settings: Mapping[str, Mapping[str, str]]
    options: ClusterOptions


def need(problems: Sequence[Problem]) -> None:
    """Raises MissingError naming all that a cluster lacks."""
    if problems:
        raise MissingError(
            "; ".join(one.lacks for one in problems),
            "; ".join(dict.fromkeys(one.remedy for one in problems)),
        )


def verify_offload(chosen: type[Cluster], asked: Asked, as_json: bool) -> int:
    """Measures a stream with the feature on and off, and prints what it is worth. Raises
    UsageError, MissingError, ClusterError.
    """
    from cnibench.cli.measurement.checks import missing_here
    from cnibench.cli.measurement.packages import install_command, lacking
    from cnibench.model.profile import choose
    from cnibench.offload import rank, tunnel_support
    from cnibench.offload.verify import verify
    from cnibench.run.checks.cpus import pins
    from cnibench.system import scratch
    from cnibench.system.interrupt import Stop
    from cnibench.testbed.capabilities.consent import Consent
    from cnibench.testbed.capabilities.node_devices import NodeDevices
    from cnibench.testbed.capabilities.outages import Outages
    from cnibench.testbed.capabilities.recognition import Recognition
    from cnibench.testbed.capability import missing
    from cnibench.testbed.cluster import Options

    profiles = choose([asked.cni])
    if len(profiles) != 1:
        raise UsageError(f"--cni {asked.cni} is {len(profiles)} profiles", "name one")
    if chosen.kind == "lab" and (
        absent := lacking(["ethtool", "netperf", "netserver"])
    ):  # elsewhere the images bring them
        raise MissingError(f"not installed: {', '.join(absent)}", install_command(absent))
    if not chosen.manages_nodes and not asked.options.allow_node_changes:
        raise UsageError(
            "--verify would change a NIC of the nodes",
            "allow it with --allow-node-changes; it is restored in every case",
        )
    if other := [label for label in asked.settings if label not in ("", *profiles)]:
        raise UsageError(
            f"--set {other[0]}:... is not the profile of --cni {asked.cni}",
            f"write --set {asked.cni}:KEY=VALUE",
        )
    if lacks := missing(chosen.deploys, [NodeDevices]):
        raise MissingError(f"--cluster {chosen.kind} does not support {lacks}")
    cluster = chosen(Options(settings=asked.settings, cluster=asked.options))
    need(missing_here(cluster))
    if isinstance(cluster, Recognition):
        profiles = dict(cluster.resolve(profiles))
    ((label, profile),) = profiles.items()
    kind = rank.tunnel_of(profile)
    if not kind or not tunnel_support.tunnel(kind).bit:
        raise UsageError(
            f"{label} has no tunnel that a feature of a NIC speeds up",
            "name one with VXLAN, Geneve or IP-in-IP",
        )
    need(cluster.check(profile))
    if isinstance(cluster, Consent):
        for line in cluster.preview(profiles, 2 * asked.blocks * asked.duration, 0.0):
            click.echo(line, err=True)
    with Stop() as stop, stop.around(cluster), scratch.folder() as raw:
        deployment = cluster.install(label, profile)
        try:
            (cpus,) = pins("shared", 1, () if chosen.manages_nodes else deployment.nodes())

            def stream(name: str) -> Stream:
                measured = _stream(deployment, label, cpus, asked.duration, raw / name)
                if isinstance(cluster, Outages) and cluster.outages():  # raises when it is lost
                    raise ClusterError(
                        "the cluster did not answer for a part of a window",
                        "run it again when the cluster is stable",
                    )
                return measured

            found = verify(
                deployment,
                tunnel_support.tunnel(kind).bit,
                stream,
                blocks=asked.blocks,
                seed=asked.seed,
            )
        finally:
            with stop.held():
                deployment.remove()
    if as_json:
        print_json(
            {
                "schema": 1,
                "profile": label,
                "tunnel": kind,
                "wire": cluster.wire,
                "seed": asked.seed,
                **dataclasses.asdict(found),
            }
        )
    else:
        _tell(found, label, tunnel_support.tunnel(kind).title, cluster.wire)
    return 0


def _stream(
    deployment: Any, label: str, cpus: tuple[int | None, int | None], duration: float, raw: Path
) -> Stream:
    """One TCP stream between the nodes, pinned as a run pins it."""
    from cnibench.model.cell import Cell
    from cnibench.offload.verify import Stream
    from cnibench.registry import provider
    from cnibench.run.sample_context import SampleContext
    from cnibench.run.windows.sample import measure

    workload = provider("workloads", "tcp-stream")
    raw.mkdir()
    client, server = deployment.pair("inter")
    deployment.reset_state()
    cell = Cell(
        label=label,
        profile=label,
        placement="inter",
        workload=workload.name,
        params=workload.params({}),
        cpus="shared",
    )
    context = SampleContext(
        cell=cell,
        block=0,
        deployment=deployment,
        client=client,
        server=server,
        duration=duration,
        warmup=0.0,
        raw=raw,
        client_cpu=cpus[0],
        server_cpu=cpus[1],
    )
    found = measure(context, workload, [provider("collectors", "sizes")]).measurements
    throughput = next(one.value for one in found.readings if one.metric == "throughput")
    sizes = [
        one["mean"]
        for kind, one in found.records
        if kind == "sizes" and (one["at"], one["direction"]) == ("wire", "sent")
    ]
    return Stream(throughput, sizes[0] if sizes else None)


def _size(value: float | None) -> str:
    return "not reported" if value is None else f"{value:.0f} B"


def _tell(found: Verified, label: str, title: str, wire: str) -> None:
    from statistics import median

    from cnibench.model.units import human

    where = ", ".join(f"{node}: {device}" for node, device in found.devices.items())
    click.echo(
        f"{label}, {title}, one TCP stream between nodes, {len(found.on)} pairs; {found.feature} on"
        f" ({where}), wire: {wire}"
    )
    print_table(
        (
            found.feature,
            "median throughput",
            "lowest",
            "highest",
            "mean packet at the sender's device",
        ),
        [
            (
                word,
                *(human(value, "bit/s") for value in (median(values), min(values), max(values))),
                _size(size),
            )
            for word, values, size in (
                ("on", found.on, found.size_on),
                ("off", found.off, found.size_off),
            )
        ],
    )
    if found.ci_low is None or found.ci_high is None:
        click.echo(
            f"on/off: {found.ratio:.2f}; too few pairs for an interval (6 give one): inconclusive"
        )
    else:
        click.echo(
            f"on/off: {found.ratio:.2f} (95 % interval {found.ci_low:.2f} to {found.ci_high:.2f}):"
            f" {found.verdict} with it on"
        )
    if wire == "veth":
        click.echo(
            "the wire is a veth pair: 'on' models a NIC that cuts the inner packets, 'off' one that"
            " has the kernel cut them"
        )
    click.echo("restored: every feature is as it was before")
