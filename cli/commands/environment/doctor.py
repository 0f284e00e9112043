"""Check that this machine or cluster can run measurements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from cnibench.cli import completion
from cnibench.cli.options.cluster import (
    ACCESS,
    KUBERNETES,
    LAB,
    MACHINES,
    NODES,
    SECTIONS,
    between_machines,
    cluster_options,
)
from cnibench.cli.options.sections import Sections
from cnibench.cli.output.printing import json_option, print_json, print_table
from cnibench.testbed.cluster_options import ClusterOptions

if TYPE_CHECKING:
    from cnibench.testbed.cluster import Cluster, Problem


@click.command(
    "doctor",
    cls=Sections,
    sections={"Options": (), **SECTIONS},
    epilog=("\b\nExamples:\n  cnibench doctor\n  cnibench doctor --cluster kind --cni cilium\n"),
)
@click.option(
    "--cluster",
    "kinds",
    multiple=True,
    metavar="KIND",
    shell_complete=completion.clusters,
    help="Kinds of cluster to check, or ssh://A,ssh://B.  [default: lab]",
)
@click.option(
    "--cni",
    multiple=True,
    metavar="NAME",
    shell_complete=completion.profiles,
    help="Profiles that must be supported.  [default: check all, require none]",
)
@LAB
@cluster_options((*ACCESS, *NODES, *KUBERNETES, *MACHINES))
@json_option
def command(
    kinds: tuple[str, ...],
    cni: tuple[str, ...],
    lab: bool,
    as_json: bool,
    cluster_options: ClusterOptions,
) -> int:
    """Check that this machine or cluster can run measurements.

    Lists what is missing, with the command that installs it, and what would disturb measurements.
    On an existing cluster, compares the two nodes that would be measured; this starts an agent on
    each node and removes it afterwards.

    Exit status: 0 nothing is missing, 3 something is missing that the cluster, the workloads or a
    profile given with --cni require.
    """
    if lab:
        kinds = tuple(between_machines(kind) for kind in kinds or ("lab",))
    found = examine(kinds or ("lab",), cni, cluster_options)
    if as_json:
        print_json(found)
    else:
        _print(found)
    return 3 if found["missing"] else 0


def examine(
    kinds: tuple[str, ...], cni: tuple[str, ...], options: ClusterOptions | None = None
) -> dict[str, Any]:
    """{schema, environment, missing[{for, lacks, remedy}], optional[...], profiles[{profile, lab,
    ...}], vm{possible, summary}, disturbances[{what, remedy}], nodes{cluster: {facts{node: {...}},
    remarks[{kind, what, remedy}]}}}.
    """
    from cnibench.cli.measurement.packages import install_command, lacking, together
    from cnibench.model.profile import builtin, choose
    from cnibench.registry import provider, providers
    from cnibench.system.environment import disturbances, machine
    from cnibench.testbed.capabilities.access_rights import AccessRights
    from cnibench.testbed.capabilities.node_inspection import NodeInspection
    from cnibench.testbed.capability import missing as lacking_capabilities
    from cnibench.testbed.cluster import Options
    from cnibench.vm.requirements import problems as vm_problems
    from cnibench.vm.requirements import summary

    workloads, collectors = providers("workloads").values(), providers("collectors").values()
    tools = {tool for part in (*workloads, *collectors) for tool in part.tools}
    facts = machine(tools)
    missing: list[dict[str, str]] = []
    optional: list[dict[str, str]] = []
    profiles: list[dict[str, str]] = []
    nodes: dict[str, Any] = {}
    named = choose(cni) if cni else {}
    vm: list[Problem] = vm_problems() if "lab" in kinds else []
    chosen: list[type[Cluster]] = [provider("clusters", name) for name in kinds]
    given = options or ClusterOptions()
    # with several kinds, an option is for those that take it; what none takes, the first refuses
    for_some = frozenset().union(*(kind.takes for kind in chosen))
    without = sorted(lacking([tool for part in workloads for tool in part.tools]))
    for name, kind in zip(kinds, chosen, strict=True):
        cluster = kind(Options(cluster=given.only(kind.takes | (given.given().keys() - for_some))))
        needed = cluster.missing()
        # profiles cannot be checked there, and each would wait for an answer
        silent = bool(needed) and isinstance(cluster, AccessRights)
        if not needed and isinstance(cluster, AccessRights):
            rights = cluster.missing_rights(())
            needed = list(rights.needed)
            optional += [_for(name, one) for one in rights.useful]
        absent_here = [_for(name, one) for one in needed]
        if not absent_here and isinstance(cluster, NodeInspection):
            nodes[name], absent_here = _nodes(cluster)
        missing += absent_here
        for label, item in (named or builtin()).items():
            problems = (
                [] if silent else cluster.check(item, replace(cluster.options, ip=item.features.ip))
            )
            where = (
                "no"
                if absent_here
                else "ok"
                if not problems
                else "vm"
                if all(one.kind == "kernel" for one in problems)
                else "no"
            )
            fields = {
                "lacks": "; ".join(one.lacks for one in problems),
                "remedy": together(one.remedy for one in problems),
            }
            shown = fields
            if absent_here:
                shown = {
                    "lacks": "; ".join(one["lacks"] for one in absent_here),
                    "remedy": together(one["remedy"] for one in absent_here),
                }
            elif where == "ok" and name == "lab" and without:
                shown = {
                    "lacks": f"workloads that need {', '.join(without)}",
                    "remedy": install_command(without),
                }
            profiles.append({"cluster": name, "profile": label, "runs": where, **shown})
            if problems and named and (vm or where != "vm"):
                missing.append({"for": f"{label} on {name}", **fields})
        optional += [
            {"for": part.title, "lacks": reason, "remedy": ""}
            for part in collectors
            if not (name == "lab" and lacking(part.tools))  # which the programs below say
            and (reason := lacking_capabilities(kind.deploys, part.needs) or part.missing(cluster))
        ]
    if "lab" in kinds:
        optional += [
            {
                "for": "the VM with a stock kernel",
                "lacks": one.lacks.removeprefix("VM: "),
                "remedy": one.remedy,
            }
            for one in vm
        ]
        missing += [
            _programs(part.name, absent) for part in workloads if (absent := lacking(part.tools))
        ]
        optional += [
            _programs(part.title, absent) for part in collectors if (absent := lacking(part.tools))
        ]
    absent = lacking([*tools, *(tool for kind in chosen for tool in kind.tools)])
    return {
        "schema": 1,
        "environment": facts,
        "missing": missing,
        "optional": optional,
        "profiles": profiles,
        "vm": {"possible": not vm, "summary": summary()} if "lab" in kinds else None,
        "install": install_command(absent) if absent else "",
        "disturbances": [{"what": what, "remedy": remedy} for what, remedy in disturbances(facts)],
        "nodes": nodes,
    }


def _for(what: str, problem: Problem) -> dict[str, str]:
    return {"for": what, "lacks": problem.lacks, "remedy": problem.remedy}


def _nodes(cluster: Cluster) -> tuple[dict[str, Any] | None, list[dict[str, str]]]:
    """(how the cluster's nodes compare, what is missing because no agent can look at them)."""
    from dataclasses import asdict

    from cnibench.errors import CnibenchError, InputError, UsageError
    from cnibench.system.interrupt import Stop
    from cnibench.testbed.capabilities.node_inspection import NodeInspection

    inspected = NodeInspection.of(cluster)
    if inspected.looking:
        click.echo(inspected.looking, err=True)
    try:
        with Stop() as stop, stop.around(cluster):
            found = inspected.compare_nodes()
    except (InputError, UsageError):
        raise
    except CnibenchError as error:
        return None, [
            {"for": f"the nodes of {cluster.kind}", "lacks": error.message, "remedy": error.remedy}
        ]
    return asdict(found), []


def _programs(what: str, absent: list[str]) -> dict[str, str]:
    from cnibench.cli.measurement.packages import install_command

    return {
        "for": what,
        "lacks": f"not installed: {', '.join(absent)}",
        "remedy": install_command(absent),
    }


def _print(found: Mapping[str, Any]) -> None:
    facts = found["environment"]
    click.echo(
        f"{facts['os']}, kernel {facts['kernel']}, {facts['cpu_model']}, {facts['cpus']} CPUs,"
        f" {facts['memory'] / 2**30:.1f} GiB"
    )
    click.echo(
        "tools:"
        f" {', '.join(f'{name} {version}'.strip() for name, version in facts['tools'].items()) or 'none'}\n"  # noqa: E501
    )
    if found["vm"]:
        click.echo(f"{found['vm']['summary']}\n")
    for title, key in (("missing", "missing"), ("missing, and measured without", "optional")):
        if found[key]:
            print_table(
                (title, "", "remedy"),
                _alike((one["for"], one["lacks"], one["remedy"]) for one in found[key]),
            )
    print_table(
        ("profile", "cluster", "runs here", "why not", "remedy"),
        _alike(
            (one["profile"], one["cluster"], one["runs"], one["lacks"], one["remedy"])
            for one in found["profiles"]
        ),
    )
    for name, nodes in found["nodes"].items():
        if nodes:
            _compared(name, nodes)
    if found["disturbances"]:
        print_table(
            ("disturbs measuring", "remedy"),
            [(one["what"], one["remedy"]) for one in found["disturbances"]],
        )
    if found["install"]:
        click.echo(f"one command for all programs:\n  {found['install']}")
    elif not found["missing"]:
        click.echo("nothing is missing")


def _alike(rows: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Those that lack the same and have the same remedy, the last two columns, as one row: what a
    whole kind of cluster lacks is said once, not once for each of fifty profiles.
    """
    found: dict[tuple[str, ...], list[str]] = {}
    for name, *rest in rows:
        found.setdefault((*rest, "" if rest[-2] else name), []).append(name)
    return [(", ".join(names), *rest[:-1]) for rest, names in found.items()]


def _compared(kind: str, nodes: Mapping[str, Any]) -> None:
    from cnibench.reports._escape import plain

    facts = nodes["facts"]
    names = list(dict.fromkeys(name for node in facts.values() for name in node))
    rows = [
        (name, *(plain(str(node.get(name, ""))) or "not reported" for node in facts.values()))
        for name in names
    ]
    print_table((f"nodes of {kind}", *facts), rows)
    print_table(
        ("", "the nodes", "remedy"),
        [(one["kind"], plain(one["what"]), one["remedy"]) for one in nodes["remarks"]],
    )
    if not any(one["kind"] == "differs" for one in nodes["remarks"]):
        click.echo("nothing that was seen differs between the nodes\n")
