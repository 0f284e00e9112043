"""Options of every command that works on a cluster of Kubernetes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import click

from cnibench.cli._options import gathered

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class ClusterOptions:
    """As typed; the kind of cluster checks them."""

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None
    client_node: str | None = None
    server_node: str | None = None
    client_selector: str | None = None
    server_selector: str | None = None
    toleration: tuple[str, ...] = ()
    max_rate: str | None = None
    allow_load: bool = False
    allow_install: bool = False
    allow_replace: str | None = None
    allow_node_changes: bool = False
    patience: str | None = None
    registry: str | None = None
    pull_secret: str | None = None
    node_image: str | None = None
    kind_nodes: int | None = None
    image_archive: tuple[str, ...] = ()

    def extra(self, keep: bool = False) -> dict[str, Any]:
        """Those that were given, as Options.extra has them."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        given = {name: value for name, value in values.items() if value not in (None, (), False)}
        return given | ({"keep": True} if keep else {})


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
