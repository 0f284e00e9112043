"""Options that only clusters of Kubernetes know; their values reach the cluster as
Options.extra.
"""

from __future__ import annotations

import click

OPTIONS = (
    click.Option(
        ["--kubeconfig"],
        metavar="FILE",
        help="existing: the kubeconfig.  [default: as kubectl finds it]",
    ),
    click.Option(
        ["--context"],
        metavar="CTX",
        help="existing: the context in it.  [default: its current one]",
    ),
    click.Option(
        ["-n", "--namespace"],
        metavar="NAME",
        help="existing: the namespace to make.  [default: a new name]",
    ),
    click.Option(["--client-node"], metavar="NODE", help="existing: the node of the clients."),
    click.Option(["--server-node"], metavar="NODE", help="existing: the node of the servers."),
    click.Option(
        ["--client-selector"], metavar="LABELS", help="existing: labels of the clients' node."
    ),
    click.Option(
        ["--server-selector"], metavar="LABELS", help="existing: labels of the servers' node."
    ),
    click.Option(
        ["--toleration"],
        multiple=True,
        metavar="TAINT",
        help="existing: KEY[=VALUE][:EFFECT] that our Pods tolerate, or 'all'.",
    ),
    click.Option(
        ["--max-rate"], metavar="RATE", help="existing: cap of what our Pods send, 1G say."
    ),
    click.Option(
        ["--allow-load"],
        is_flag=True,
        help="existing: load nodes although Pods of others run there.",
    ),
    click.Option(
        ["--allow-install"],
        is_flag=True,
        help="existing: install profiles on a cluster that has no CNI.",
    ),
    click.Option(
        ["--allow-replace"],
        metavar="CONTEXT",
        help="existing: replace the CNI of the cluster of that context.",
    ),
    click.Option(
        ["--allow-node-changes"],
        is_flag=True,
        help="existing: let features of nodes' NICs be changed; they are restored.",
    ),
    click.Option(
        ["--patience"],
        metavar="TIME",
        help="How long an API server that does not answer is waited for.  [default: 2m]",
    ),
    click.Option(
        ["--registry"], metavar="HOST/PATH", help="Where our images are, and mirrors of the CNIs'."
    ),
    click.Option(
        ["--pull-secret"],
        metavar="NAME",
        help="Image pull secret for our Pods: NAMESPACE/NAME, copied into our namespace.",
    ),
    click.Option(
        ["--node-image"],
        metavar="IMAGE",
        help="kind: the nodes' image.  [default: CNIBENCH_KIND_IMAGE, or kind's own]",
    ),
    click.Option(
        ["--kind-nodes"],
        type=click.IntRange(2, 20),
        metavar="N",
        help="kind: nodes of each cluster.  [default: 2]",
    ),
    click.Option(
        ["--image-archive"],
        multiple=True,
        metavar="FILE",
        help="kind: an image archive that is loaded into the nodes.",
    ),
)
