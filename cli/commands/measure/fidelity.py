"""Compare the model of a CNI in the lab with its real agent, and certify it."""

from __future__ import annotations

from pathlib import Path

import click

from cnibench.cli import completion
from cnibench.cli.options.shared import new_run_option
from cnibench.cli.output.printing import json_option, print_json


@click.command(
    "fidelity",
    epilog=(
        "\b\nExamples:\n"
        "  cnibench fidelity --cni flannel --agent ./flanneld --programs ./bin\n"
        "  cnibench fidelity --cni kube-router --agent example.org/kube-router:v2.11.1\n"
    ),
)
@click.option(
    "--cni",
    required=True,
    metavar="NAME",
    shell_complete=completion.profiles,
    help="Profile whose model is compared: a name or a file.",
)
@click.option(
    "--agent",
    required=True,
    metavar="PROGRAM|IMAGE",
    help="The agent: a program, or an image that contains it, which podman or docker pulls.",
)
@click.option(
    "--programs",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help=(
        "Folder with kube-apiserver, etcd and CNI plugins, searched before PATH, /opt/cni/bin and"
        " /usr/lib/cni. Repeatable."
    ),
)
@click.option(
    "--manifest",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Objects that the agent needs, for example its CustomResourceDefinitions. Repeatable.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set an option of the profile's model; the agent is started accordingly. Repeatable.",
)
@click.option(
    "--blocks",
    type=click.IntRange(0, 100),
    default=6,
    show_default=True,
    metavar="N",
    help="Blocks in which both deployments are measured; 0: only compare their state.",
)
@click.option(
    "--into",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Store the certificate in this folder.  [default: with the user's data]",
)
@new_run_option
@json_option
def command(
    cni: str,
    agent: str,
    programs: tuple[Path, ...],
    manifest: tuple[Path, ...],
    settings: tuple[str, ...],
    blocks: int,
    into: Path | None,
    folder: Path,
    as_json: bool,
) -> int:
    """Compare the model of a CNI in the lab with its real agent, and certify it.

    Runs the agent on the lab's two nodes against a real API server that has these nodes and their
    Pods. Compares what it creates with what the model of the profile creates: devices, routes,
    rules, neighbours, sysctls, packet filters and sets, eBPF programs, offloads, and the rules that
    a packet meets. Then measures the rate of both, alternating in slices.

    The result is a certificate for this kernel, this agent and this state of the model. Reports
    name it wherever they show figures of the model. Everything else is removed at the end, apart
    from the run directory.

    Exit status: 0 no difference, 1 differences, 3 something is missing.
    """
    import msgspec

    from cnibench.certificates.store import store
    from cnibench.cli.measurement.certificate import certify
    from cnibench.cli.measurement.certificate_results import show

    certificate, run = certify(cni, agent, programs, manifest, settings, blocks, folder)
    path = store(certificate, into)
    if as_json:
        print_json({**msgspec.to_builtins(certificate), "file": str(path), "run": str(run or "")})
    else:
        show(certificate, path, run)
    return 1 if certificate.differences else 0
