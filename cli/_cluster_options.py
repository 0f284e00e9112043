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
        "--kubeconfig",
        metavar="FILE",
        help="existing: the kubeconfig.  [default: as kubectl finds it]",
    ),
    click.option(
        "--context", metavar="CTX", help="existing: the context in it.  [default: its current one]"
    ),
    click.option(
        "-n",
        "--namespace",
        metavar="NAME",
        help="existing: the namespace to make.  [default: a new name]",
    ),
    click.option("--client-node", metavar="NODE", help="existing: the node of the clients."),
    click.option("--server-node", metavar="NODE", help="existing: the node of the servers."),
    click.option(
        "--client-selector", metavar="LABELS", help="existing: labels of the clients' node."
    ),
    click.option(
        "--server-selector", metavar="LABELS", help="existing: labels of the servers' node."
    ),
    click.option(
        "--toleration",
        multiple=True,
        metavar="TAINT",
        help="existing: KEY[=VALUE][:EFFECT] that our Pods tolerate, or 'all'.",
    ),
    click.option("--max-rate", metavar="RATE", help="existing: cap of what our Pods send, 1G say."),
    click.option(
        "--allow-load", is_flag=True, help="existing: load nodes although Pods of others run there."
    ),
    click.option(
        "--allow-install",
        is_flag=True,
        help="existing: install profiles on a cluster that has no CNI.",
    ),
    click.option(
        "--allow-replace",
        metavar="CONTEXT",
        help="existing: replace the CNI of the cluster of that context.",
    ),
    click.option(
        "--allow-node-changes",
        is_flag=True,
        help="existing: let features of nodes' NICs be changed; they are restored.",
    ),
    click.option(
        "--patience",
        metavar="TIME",
        help="How long an API server that does not answer is waited for.  [default: 2m]",
    ),
    click.option(
        "--registry", metavar="HOST/PATH", help="Where our images are, and mirrors of the CNIs'."
    ),
    click.option(
        "--pull-secret",
        metavar="NAME",
        help="Image pull secret for our Pods: NAMESPACE/NAME, copied into our namespace.",
    ),
    click.option(
        "--node-image",
        metavar="IMAGE",
        help="kind: the nodes' image.  [default: CNIBENCH_KIND_IMAGE, or kind's own]",
    ),
    click.option(
        "--kind-nodes",
        type=click.IntRange(2, 20),
        metavar="N",
        help="kind: nodes of each cluster.  [default: 2]",
    ),
    click.option(
        "--image-archive",
        multiple=True,
        metavar="FILE",
        help="kind: an image archive that is loaded into the nodes.",
    ),
)
