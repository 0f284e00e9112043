"""Options of every command that works on a cluster of Kubernetes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from cnibench.cli.options.shared import gathered
from cnibench.errors import UsageError
from cnibench.testbed.cluster_options import ClusterOptions

F = TypeVar("F", bound=Callable[..., Any])

ACCESS = (
    click.option("--kubeconfig", metavar="FILE", help="Kubeconfig file.  [default: as in kubectl]"),
    click.option(
        "--context", metavar="CTX", help="Kubeconfig context.  [default: the current one]"
    ),
    click.option("--as", "as_user", metavar="USER", help="User to impersonate."),
    click.option("--as-group", multiple=True, metavar="GROUP", help="Group to impersonate."),
    click.option(
        "-n",
        "--namespace",
        metavar="NAME",
        help="Namespace to create (--cluster namespace: to use).  [default: a new name]",
    ),
)
NODES = (
    click.option("--client-node", metavar="NODE", help="Node of the clients."),
    click.option("--server-node", metavar="NODE", help="Node of the servers."),
    click.option(
        "--client-selector", metavar="LABELS", help="Label selector for the clients' node."
    ),
    click.option(
        "--server-selector", metavar="LABELS", help="Label selector for the servers' node."
    ),
    click.option(
        "--toleration",
        multiple=True,
        metavar="TAINT",
        help="KEY[=VALUE][:EFFECT] to tolerate, or 'all'.",
    ),
)
LOAD = (
    click.option("--max-rate", metavar="RATE", help="Rate limit of the Pods, for example 1G."),
    click.option("--allow-load", is_flag=True, help="Allow load on nodes that run other Pods."),
    click.option(
        "--pod-resources",
        metavar="LIST",
        help="Requests and limits of each measured Pod, for example cpu=2,memory=1Gi.",
    ),
)
CHANGES = (
    click.option(
        "--allow-install",
        is_flag=True,
        help=(
            "Allow installing profiles on a cluster without a CNI, and Kubernetes on machines"
            " (ssh://); both are removed."
        ),
    ),
    click.option(
        "--allow-replace",
        metavar="CONTEXT",
        help="Allow replacing the CNI of this context's cluster.",
    ),
)
NODE_CHANGES = (
    click.option(
        "--allow-node-changes",
        is_flag=True,
        help="Allow changes to NIC features of nodes, Services that kube-proxy writes on all"
        " nodes (services.count), and devices on the NICs of machines (--lab). All are undone.",
    ),
)
KUBERNETES = (
    click.option(
        "--patience",
        metavar="TIME",
        help="Time to wait for an API server that does not respond.  [default: 2m]",
    ),
    click.option(
        "--registry",
        metavar="HOST/PATH",
        help="Registry of cnibench's images and of mirrored CNI images.",
    ),
    click.option(
        "--pull-secret",
        metavar="NAME",
        help="Image pull secret: NAMESPACE/NAME, copied into cnibench's namespace.",
    ),
)
KIND = (
    click.option(
        "--node-image",
        metavar="IMAGE",
        help="Node image.  [default: CNIBENCH_KIND_IMAGE, or kind's own]",
    ),
    click.option(
        "--kind-nodes",
        type=click.IntRange(2, 20),
        metavar="N",
        help="Number of nodes in each cluster.  [default: 2]",
    ),
    click.option(
        "--image-archive",
        multiple=True,
        metavar="FILE",
        help="Image archive to load into the nodes.",
    ),
)
MACHINES = (
    click.option(
        "--kubernetes",
        metavar="VERSION|PATH",
        help=(
            "With ssh://: a version from the machines' package sources, or a folder or archive with"
            " the programs and images.  [default: v1.34]"
        ),
    ),
)
LAB = click.option(
    "--lab",
    is_flag=True,
    help="With ssh://: the lab's models between the two machines, without Kubernetes.",
)
EVERY = (*ACCESS, *NODES, *LOAD, *CHANGES, *NODE_CHANGES, *KUBERNETES, *KIND, *MACHINES)

# For the help of commands (sections.py).
SECTIONS = {
    "Existing clusters": (
        "kubeconfig",
        "context",
        "as_user",
        "as_group",
        "namespace",
        "client_node",
        "server_node",
        "client_selector",
        "server_selector",
        "toleration",
        "max_rate",
        "allow_load",
        "allow_install",
        "allow_replace",
        "allow_node_changes",
    ),
    "Existing clusters and kind": ("patience", "registry", "pull_secret", "pod_resources", "keep"),
    "kind": ("node_image", "kind_nodes"),
    "kind and ssh://": ("image_archive",),
    "ssh://": ("kubernetes", "lab"),
}


def between_machines(cluster: str | None) -> str:
    """The kind of cluster that ``--lab`` makes of ``ssh://A,ssh://B``. Raises UsageError."""
    if not (cluster or "").startswith("ssh://"):
        raise UsageError(
            "--lab is for two machines",
            "--cluster ssh://A,ssh://B --lab; on this machine --cluster lab is the default",
        )
    return f"ssh-lab{str(cluster).removeprefix('ssh')}"


def cluster_options(options: Sequence[Callable[[Any], Any]] = EVERY) -> Callable[[F], F]:
    """Adds these to a command, which gets them as ``cluster_options``."""

    def decorate(command: F) -> F:
        command = gathered(ClusterOptions, "cluster_options")(command)
        for option in reversed(options):
            command = option(command)
        return command

    return decorate
