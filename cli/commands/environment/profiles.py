"""List the CNI profiles with their features, or show one."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from cnibench.cli import completion
from cnibench.cli.options.shared import hand_down
from cnibench.cli.output.printing import json_option, print_json, print_table

if TYPE_CHECKING:
    from cnibench.model.profile import Profile


@click.group("profiles", invoke_without_command=True)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List the CNI profiles with their features, or show one."""
    if ctx.invoked_subcommand is not None:
        hand_down(ctx)
        return
    from cnibench.model.profile import builtin

    known = builtin()
    here = runs_here(known.values())
    if as_json:
        documents = [_document(item, here[item.name]) for item in known.values()]
        print_json({"schema": 1, "profiles": documents, "systems": systems(known.values(), here)})
        return
    heads = (
        "profile",
        "network",
        "mode",
        "encapsulation",
        "policy",
        "encryption",
        "IP",
        "MTU",
        "lab",
        "kubernetes",
    )
    print_table(heads, [_row(item, here[item.name]) for item in known.values()])
    click.echo("\nSystems of the studies, and whether the lab on this machine can run them")
    rows = [
        [item["study"], item["system"], item["profile"], item["lab"]]
        for item in systems(known.values(), here)
    ]
    print_table(("study", "system", "profile", "lab"), rows)
    click.echo()
    for name, where in here.items():
        if where["reason"]:
            click.echo(f"{name}: {where['reason']}; {where['remedy']}")


@command.command("show")
@click.argument("name", shell_complete=completion.profiles)
@json_option
def show(name: str, as_json: bool) -> None:
    """Show a profile and whether this machine can run it."""
    from cnibench.model.profile import choose

    for item in choose([name]).values():
        where = runs_here([item])[item.name]
        if as_json:
            print_json({"schema": 1, **_document(item, where)})
            continue
        click.echo(f"{item.name}: {item.title}\n{item.summary}\n")
        print_table(("feature", ""), _features(item, where))
        for source in item.sources:
            click.echo(f"source: {source.what}\n  {source.url}")


def runs_here(profiles: Iterable[Profile]) -> dict[str, dict[str, str]]:
    """Profile to {lab: host|vm|no, reason, remedy}: whether the lab can model it on this kernel, or
    in a VM with a stock kernel.
    """
    from cnibench.registry import provider
    from cnibench.testbed.cluster import Cluster, Options
    from cnibench.vm.requirements import problems as vm_problems

    lab: Cluster = provider("clusters", "lab")(Options())
    machine = vm_problems()  # what a VM lacks here
    found = {}
    for item in profiles:
        problems = lab.check(item, Options(ip=item.features.ip))
        if for_a_vm := bool(problems) and all(one.kind == "kernel" for one in problems):
            problems += machine
        where = "host" if not problems else "vm" if for_a_vm and not machine else "no"
        reason = "; ".join(one.lacks for one in problems)
        found[item.name] = {
            "lab": where,
            "reason": reason,
            "remedy": "; ".join(dict.fromkeys(one.remedy for one in problems)),
        }
    return found


def systems(
    profiles: Iterable[Profile], here: Mapping[str, Mapping[str, str]]
) -> list[dict[str, str]]:
    """Every system of the studies: study, its name there, the profile that stands for it, and where
    that runs (lab, reason, remedy).
    """
    found = [
        {"study": study, "system": name, "profile": item.name, **here[item.name]}
        for item in profiles
        for study, name in item.studies.items()
    ]
    return sorted(found, key=lambda item: (item["study"], item["system"].lower()))


def _policy(item: Profile) -> str:
    policy = item.features.policy
    if not policy.kubernetes:
        return "no"
    ways = "+".join(word for word, has in (("in", policy.ingress), ("out", policy.egress)) if has)
    return f"{ways} {'/'.join(policy.layers)}".strip()


def _short(item: Profile) -> str:
    """By what the real CNI is installed, in one word."""
    if item.kubernetes is None:
        return "no"
    if item.kubernetes.installed_by:
        return "current"
    return {"helm": "helm", "manifest": "manifest", "reference": "plugins"}.get(
        item.kubernetes.means()[-1].split()[0], "host"
    )


def _kubernetes(item: Profile) -> list[tuple[str, str]]:
    if item.kubernetes is None:
        return [("on Kubernetes", "no")]
    about = item.kubernetes
    rows = [("on Kubernetes", "; ".join(about.means()))]
    if about.kernel:
        rows.append(("kernel modules on Kubernetes", ", ".join(about.kernel)))
    if about.steps:
        mode = f", in mode {about.kube_proxy_mode}" if about.kube_proxy_mode else ""
        there = f"yes{mode}" if about.kube_proxy else "no, the CNI replaces it"
        rows.append(("kube-proxy", there))
    return rows + [("note", words) for words in about.notes]


def _encapsulation(item: Profile) -> str:
    if item.kubernetes and item.kubernetes.encapsulation and not item.datapath:
        return item.kubernetes.encapsulation
    return item.datapath.encapsulation if item.datapath else (item.features.tunnels or ("none",))[0]


def services(item: Profile) -> tuple[str, ...]:
    """How the lab's model of it implements Services (``--proxy``), the usual way first; empty
    without a model.
    """
    from cnibench.clusters.lab.builders.base import builder_of

    if item.datapath is None:
        return ()
    builder, options = builder_of(item)
    return builder.proxies(options)


def certified(item: Profile) -> str:
    """What certificates say of its model on this kernel."""
    from cnibench.certificates.standing import words
    from cnibench.clusters.lab import certified as certificates

    return words(certificates.of(item, platform.release(), {}, (4,)))


def _row(item: Profile, where: Mapping[str, str]) -> list[str]:
    features = item.features
    families = "/".join(str(family) for family in features.ip)
    return [
        item.name,
        features.network_model,
        features.mode,
        _encapsulation(item),
        _policy(item),
        features.encryption or "no",
        families,
        str(features.default_mtu),
        where["lab"],
        _short(item),
    ]


def _features(item: Profile, where: Mapping[str, str]) -> list[tuple[str, str]]:
    features = item.features
    model = []
    if found := services(item):
        model = [("Services in the lab (--proxy)", ", ".join(found))]
        model += [("model", certified(item))] if item.cni != "none" else []  # baselines have none
    lab = (
        where["lab"]
        if not where["reason"]
        else f"{where['lab']}: {where['reason']}; {where['remedy']}"
    )
    rows = [
        ("CNI", item.cni),
        ("network model", features.network_model),
        ("between nodes", features.mode),
        ("encapsulation", _encapsulation(item)),
        ("tunnels offered", ", ".join(features.tunnels) or "none"),
        ("policy", _policy(item)),
        ("policy beyond Kubernetes' own", "yes" if features.policy.third_party else "no"),
        ("encryption", features.encryption or "none"),
        *([("the same mode without it", item.clear)] if item.clear else []),
        ("IP families", ", ".join(str(family) for family in features.ip)),
        ("default MTU", str(features.default_mtu)),
        ("more", "; ".join(features.extra) or "-"),
        ("in the lab", lab),
        *model,
        *_kubernetes(item),
    ]
    return rows + [(f"name in {study}", name) for study, name in item.studies.items()]


def _document(item: Profile, where: Mapping[str, str]) -> dict[str, Any]:
    found = item.model_dump(mode="json", by_alias=True)
    return {**found, "services": list(services(item)), "here": dict(where)}
