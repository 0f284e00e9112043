"""Show which tunnel offloads each NIC supports, and which profiles benefit."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnibench.cli._cluster_options import ClusterOptions, cluster_options
from cnibench.cli._output import json_option, print_json, print_table
from cnibench.errors import ClusterError, MissingError, UsageError

if TYPE_CHECKING:
    from cnibench.offload.verify import Stream, Verified
    from cnibench.testbed.cluster import Cluster, Problem


@click.command(
    "offload",
    epilog=("\b\nExamples:\n  cnibench offload\n  cnibench offload --verify --cni flannel\n"),
)
@click.option(
    "--cluster",
    "kind",
    default="lab",
    show_default=True,
    metavar="KIND",
    help="Cluster whose nodes are checked; lab: this machine.",
)
@click.option(
    "--verify",
    is_flag=True,
    help="Measure a tunnel with the feature on and off (lab: on the lab's wire).",
)
@click.option(
    "--cni",
    default="flannel",
    show_default=True,
    metavar="NAME",
    help="With --verify: the profile whose tunnel is measured.",
)
@click.option(
    "--blocks",
    default=6,
    show_default=True,
    type=click.IntRange(1, 200),
    help="With --verify: pairs of measurements.",
)
@click.option(
    "--duration", default="1s", show_default=True, help="With --verify: of each measurement."
)
@click.option(
    "--seed", default=1, show_default=True, help="With --verify: of the order of on and off."
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="[LABEL:]KEY=VALUE",
    help="With --verify: a setting of the profile.",
)
@click.option("--all", "every", is_flag=True, help="Include software devices.")
@cluster_options
@json_option
def command(
    kind: str,
    verify: bool,
    cni: str,
    blocks: int,
    duration: str,
    seed: int,
    settings: Sequence[str],
    every: bool,
    as_json: bool,
    cluster_options: ClusterOptions,
) -> int:
    """Show which tunnel offloads each NIC supports, and which profiles benefit.

    Reads the features of every NIC and of the devices that reach other nodes: on this machine
    (lab), or on each measured node of a cluster through an agent that is removed afterwards (kind
    creates a cluster for it). Changes no device unless --verify is given.
    """
    from cnibench.registry import provider

    chosen: type[Cluster] = provider("clusters", kind)
    if verify:
        from cnibench.cli._errors import guarded
        from cnibench.cli._plan import settings_of
        from cnibench.model.units import seconds

        asked = _Asked(
            cni, blocks, seconds(duration), seed, settings_of(settings), cluster_options.extra()
        )
        return chosen.carry(lambda: guarded(lambda: _verify(chosen, asked, as_json)))
    found = examine(chosen, every, cluster_options.extra())
    if as_json:
        print_json(found)
    else:
        _print(found)
    return 0


def examine(
    chosen: type[Cluster], every: bool = False, extra: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """{schema, nics[...], tunnels[...], other[...], asymmetries[...], profiles[...],
    notes[...]}.
    """
    from cnibench.model.profile import builtin
    from cnibench.offload import facts
    from cnibench.system.interrupt import Stop
    from cnibench.testbed.capabilities.nics import Nics
    from cnibench.testbed.cluster import Options

    cluster = chosen(Options(extra=extra or {}))
    if chosen.kind != "lab":  # to ask this machine takes nothing of what the lab needs
        _need(cluster.missing())
    with Stop(), cluster:
        nics, ports = Nics.of(cluster).nics(every)
        found = facts.judged(nics, ports, every)
    within = facts.obtainable(builtin(), chosen.kind == "lab")
    return {
        "schema": 1,
        **found,
        "profiles": [dataclasses.asdict(one) for one in facts.ranked(found, within)],
    }


def _print(found: Mapping[str, Any]) -> None:
    from cnibench.offload.tunnel_support import tunnel
    from cnibench.reports._escape import plain

    print_table(
        ("node", "NIC", "driver", "firmware", "answers by", "checksum", "receive-side scaling"),
        [
            (
                nic["node"],
                plain(nic["name"]) + (" (underlay)" if nic["underlay"] else ""),
                plain(nic["driver"] or nic["problem"]),
                plain(nic["firmware"]) or "not reported",
                nic["source"],
                other["checksum"],
                other["scaling"],
            )
            for nic, other in zip(found["nics"], found["other"], strict=True)
        ],
    )
    print_table(
        ("node", "NIC", "tunnel", "", "why", "turn it on"),
        [
            (
                one["node"],
                plain(one["nic"]),
                tunnel(one["tunnel"]).title,
                one["outcome"],
                plain(one["reason"]),
                plain(one["command"]),
            )
            for one in found["tunnels"]
        ],
    )
    rows = [
        (
            str(one["place"]),
            one["profile"],
            tunnel(one["tunnel"]).title if one["tunnel"] else "none",
            one["outcome"],
        )
        for one in found["profiles"]
    ]
    print_table(("place", "profile", "tunnel", "on these NICs"), rows)
    for line in (*found["asymmetries"], *found["notes"]):
        click.echo(f"- {line}")


@dataclasses.dataclass(frozen=True)
class _Asked:
    """What --verify is to do; ``duration`` in s of each measurement."""

    cni: str
    blocks: int
    duration: float
    seed: int
    settings: Mapping[str, Mapping[str, str]]
    extra: Mapping[str, Any]


def _need(problems: Sequence[Problem]) -> None:
    if problems:
        raise MissingError(
            "; ".join(one.lacks for one in problems),
            "; ".join(dict.fromkeys(one.remedy for one in problems)),
        )


def _verify(chosen: type[Cluster], asked: _Asked, as_json: bool) -> int:
    from cnibench.cli._packages import install_command, lacking
    from cnibench.model.profile import choose
    from cnibench.offload import rank, tunnel_support
    from cnibench.offload.verify import verify
    from cnibench.run.cpus import pins
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
    if not chosen.manages_nodes and not asked.extra.get("allow_node_changes"):
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
    cluster = chosen(Options(settings=asked.settings, extra=asked.extra))
    _need(cluster.missing())
    if isinstance(cluster, Recognition):
        profiles = dict(cluster.resolve(profiles))
    ((label, profile),) = profiles.items()
    kind = rank.tunnel_of(profile)
    if not kind or not tunnel_support.tunnel(kind).bit:
        raise UsageError(
            f"{label} has no tunnel that a feature of a NIC speeds up",
            "name one with VXLAN, Geneve or IP-in-IP",
        )
    _need(cluster.check(profile))
    if isinstance(cluster, Consent):
        for line in cluster.preview(profiles, 2 * asked.blocks * asked.duration, 0.0):
            click.echo(line, err=True)
    with Stop(), cluster, scratch.folder() as raw:
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
    from cnibench.run.sample import measure
    from cnibench.run.sample_context import SampleContext

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
    found = measure(context, workload, [provider("collectors", "sizes")]).findings
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
