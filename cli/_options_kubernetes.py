"""Options that only clusters of Kubernetes know; their values reach the cluster as
Options.extra.
"""

from __future__ import annotations

import click

OPTIONS = (
    click.Option(
        ["--kubeconfig"],
        metavar="FILE",
        help="existing: kubeconfig file.  [default: as in kubectl]",
    ),
    click.Option(
        ["--context"],
        metavar="CTX",
        help="existing: kubeconfig context.  [default: the current one]",
    ),
    click.Option(
        ["-n", "--namespace"],
        metavar="NAME",
        help="existing: namespace to create.  [default: a new name]",
    ),
    click.Option(["--client-node"], metavar="NODE", help="existing: node of the clients."),
    click.Option(["--server-node"], metavar="NODE", help="existing: node of the servers."),
    click.Option(
        ["--client-selector"],
        metavar="LABELS",
        help="existing: label selector for the clients' node.",
    ),
    click.Option(
        ["--server-selector"],
        metavar="LABELS",
        help="existing: label selector for the servers' node.",
    ),
    click.Option(
        ["--toleration"],
        multiple=True,
        metavar="TAINT",
        help="existing: KEY[=VALUE][:EFFECT] to tolerate, or 'all'.",
    ),
    click.Option(
        ["--max-rate"], metavar="RATE", help="existing: rate limit of the Pods, for example 1G."
    ),
    click.Option(
        ["--allow-load"], is_flag=True, help="existing: allow load on nodes that run other Pods."
    ),
    click.Option(
        ["--allow-install"],
        is_flag=True,
        help="existing: allow installing profiles on a cluster without a CNI.",
    ),
    click.Option(
        ["--allow-replace"],
        metavar="CONTEXT",
        help="existing: allow replacing the CNI of this context's cluster.",
    ),
    click.Option(
        ["--allow-node-changes"],
        is_flag=True,
        help="existing: allow changing NIC features of nodes; they are restored.",
    ),
    click.Option(
        ["--patience"],
        metavar="TIME",
        help="Time to wait for an API server that does not respond.  [default: 2m]",
    ),
    click.Option(
        ["--registry"],
        metavar="HOST/PATH",
        help="Registry of cnibench's images and of mirrored CNI images.",
    ),
    click.Option(
        ["--pull-secret"],
        metavar="NAME",
        help="Image pull secret: NAMESPACE/NAME, copied into cnibench's namespace.",
    ),
    click.Option(
        ["--node-image"],
        metavar="IMAGE",
        help="kind: node image.  [default: CNIBENCH_KIND_IMAGE, or kind's own]",
    ),
    click.Option(
        ["--kind-nodes"],
        type=click.IntRange(2, 20),
        metavar="N",
        help="kind: number of nodes in each cluster.  [default: 2]",
    ),
    click.Option(
        ["--image-archive"],
        multiple=True,
        metavar="FILE",
        help="kind: image archive to load into the nodes.",
    ),
)
