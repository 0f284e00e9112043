"""Show which tunnel offloads each NIC supports, and which profiles benefit."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from cnibench.cli import completion
from cnibench.cli.measurement.offload import Asked, need, verify_offload
from cnibench.cli.options.cluster import SECTIONS, cluster_options
from cnibench.cli.options.sections import Sections
from cnibench.cli.output.printing import json_option, print_json, print_table
from cnibench.testbed.cluster_options import ClusterOptions

if TYPE_CHECKING:
    from cnibench.testbed.cluster import Cluster


@click.command(
    "offload",
    cls=Sections,
    sections={"Options": (), **SECTIONS},
    epilog=("\b\nExamples:\n  cnibench offload\n  cnibench offload --verify --cni flannel\n"),
)
@click.option(
    "--cluster",
    "kind",
    default="lab",
    show_default=True,
    metavar="KIND",
    shell_complete=completion.clusters,
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
    shell_complete=completion.profiles,
    help="With --verify: the profile whose tunnel is measured.",
)
@click.option(
    "--blocks",
    default=6,
    show_default=True,
    type=click.IntRange(1, 200),
    metavar="N",
    help="With --verify: pairs of measurements.",
)
@click.option(
    "--duration",
    default="1s",
    metavar="TIME",
    show_default=True,
    help="With --verify: length of each measurement.",
)
@click.option(
    "--seed",
    default=1,
    metavar="N",
    show_default=True,
    help="With --verify: random seed for the order of on and off.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="[LABEL:]KEY=VALUE",
    help="With --verify: a setting of the profile.",
)
@click.option("--all", "every", is_flag=True, help="Include software devices.")
@cluster_options()
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
        from cnibench.cli.errors import guarded
        from cnibench.cli.measurement.plan import settings_of
        from cnibench.model.units import seconds

        asked = Asked(cni, blocks, seconds(duration), seed, settings_of(settings), cluster_options)
        return chosen.carry(lambda: guarded(lambda: verify_offload(chosen, asked, as_json)))
    found = examine(chosen, every, cluster_options)
    if as_json:
        print_json(found)
    else:
        _print(found)
    return 0


def examine(
    chosen: type[Cluster], every: bool = False, options: ClusterOptions | None = None
) -> dict[str, Any]:
    """{schema, nics[...], tunnels[...], other[...], asymmetries[...], profiles[...],
    notes[...]}.
    """
    from cnibench.cli.measurement.checks import missing_here
    from cnibench.model.profile import builtin
    from cnibench.offload import facts
    from cnibench.system.interrupt import Stop
    from cnibench.testbed.capabilities.nics import Nics
    from cnibench.testbed.cluster import Options

    cluster = chosen(Options(cluster=options or ClusterOptions()))
    if chosen.kind != "lab":  # to ask this machine takes nothing of what the lab needs
        need(missing_here(cluster))
    with Stop() as stop, stop.around(cluster):
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
