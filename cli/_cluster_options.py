"""Options of every command that works on a cluster of Kubernetes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from cnibench.cli._options import gathered
from cnibench.testbed.cluster_options import ClusterOptions

F = TypeVar("F", bound=Callable[..., Any])


def cluster_options(command: F) -> F:
    """Adds them to a command, which gets them as ``cluster_options``."""
    command = gathered(ClusterOptions, "cluster_options")(command)
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_OPTIONS = (
    click.option(
        "--kubeconfig", metavar="FILE", help="existing: kubeconfig file.  [default: as in kubectl]"
    ),
    click.option(
        "--context", metavar="CTX", help="existing: kubeconfig context.  [default: the current one]"
    ),
    click.option(
        "-n",
        "--namespace",
        metavar="NAME",
        help="existing: namespace to create.  [default: a new name]",
    ),
    click.option("--client-node", metavar="NODE", help="existing: node of the clients."),
    click.option("--server-node", metavar="NODE", help="existing: node of the servers."),
    click.option(
        "--client-selector",
        metavar="LABELS",
        help="existing: label selector for the clients' node.",
    ),
    click.option(
        "--server-selector",
        metavar="LABELS",
        help="existing: label selector for the servers' node.",
    ),
    click.option(
        "--toleration",
        multiple=True,
        metavar="TAINT",
        help="existing: KEY[=VALUE][:EFFECT] to tolerate, or 'all'.",
    ),
    click.option(
        "--max-rate", metavar="RATE", help="existing: rate limit of the Pods, for example 1G."
    ),
    click.option(
        "--allow-load", is_flag=True, help="existing: allow load on nodes that run other Pods."
    ),
    click.option(
        "--allow-install",
        is_flag=True,
        help="existing: allow installing profiles on a cluster without a CNI.",
    ),
    click.option(
        "--allow-replace",
        metavar="CONTEXT",
        help="existing: allow replacing the CNI of this context's cluster.",
    ),
    click.option(
        "--allow-node-changes",
        is_flag=True,
        help="existing: allow changing NIC features of nodes; they are restored.",
    ),
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
    click.option(
        "--node-image",
        metavar="IMAGE",
        help="kind: node image.  [default: CNIBENCH_KIND_IMAGE, or kind's own]",
    ),
    click.option(
        "--kind-nodes",
        type=click.IntRange(2, 20),
        metavar="N",
        help="kind: number of nodes in each cluster.  [default: 2]",
    ),
    click.option(
        "--image-archive",
        multiple=True,
        metavar="FILE",
        help="kind: image archive to load into the nodes.",
    ),
)
