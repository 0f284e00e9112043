"""What is refused on a cluster that others use, unless it was allowed by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cnibench.clusters.kubernetes.api import objects
from cnibench.errors import UsageError
from cnibench.model.units import bits_per_second, duration, human
from cnibench.testbed.cluster_options import ClusterOptions

# Where Kubernetes itself, the usual CNIs and kind put their own.
_SYSTEM = (
    "kube-system",
    "kube-public",
    "kube-node-lease",
    "kube-flannel",
    "calico-system",
    "calico-apiserver",
    "tigera-operator",
    "local-path-storage",
    "cilium",
    "cilium-secrets",
)
_CRITICAL = ("system-node-critical", "system-cluster-critical")


class RefusedError(UsageError):
    """Something that would touch others, and was not allowed."""


@dataclass(frozen=True)
class Allowed:
    """What the user allowed. ``replace`` is the context named with --allow-replace, ``max_rate`` in
    bit/s (0: no cap).
    """

    load: bool = False
    install: bool = False
    replace: str = ""
    node_changes: bool = False
    max_rate: float = 0.0

    @classmethod
    def of(cls, options: ClusterOptions) -> Allowed:
        """Raises UsageError for a rate that is none."""
        rate = bits_per_second(options.max_rate) if options.max_rate else 0.0
        if 0 < rate < 1e6:
            raise UsageError(
                "--max-rate: expected at least 1M",
                "with less, attesting a profile alone takes minutes",
            )
        return cls(
            options.allow_load,
            options.allow_install,
            options.allow_replace or "",
            options.allow_node_changes,
            rate,
        )


def foreign(pods: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """(node, namespace/name) of the running Pods that are neither the system's nor ours."""
    found = []
    for pod in pods:
        meta, spec = pod["metadata"], pod.get("spec", {})
        ours = meta.get("labels", {}).get(objects.OURS) == objects.NAME
        system = meta.get("namespace") in _SYSTEM or spec.get("priorityClassName") in _CRITICAL
        if (
            not ours
            and not system
            and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")
        ):
            found.append((str(spec.get("nodeName", "")), f"{meta.get('namespace')}/{meta['name']}"))
    return sorted(found)


def check_load(
    allowed: Allowed, strangers: Sequence[tuple[str, str]], nodes: Sequence[str]
) -> None:
    """Raises RefusedError when the chosen nodes have foreign Pods and load was not allowed."""
    there = [name for node, name in strangers if node in nodes]
    if there and not allowed.load:
        raise RefusedError(
            f"{some(there)} on the chosen nodes would be disturbed",
            "choose other nodes with --client-node and --server-node, or allow it: --allow-load"
            " (--max-rate caps it)",
        )


def check_change(
    allowed: Allowed,
    present: str,
    context: str,
    nodes: int,
    strangers: Sequence[tuple[str, str]],
    *,
    ours: bool = False,
) -> None:
    """Raises RefusedError when the CNI of a cluster may not be changed; ``present`` is the one that
    runs there, '' for none.

    ``ours``: an earlier run installed it, as --allow-install had allowed.
    """
    if not present and not (allowed.install or allowed.replace):
        raise RefusedError(
            f"the cluster of the context '{context}' ({nodes} nodes) has no CNI, and installing one"
            " was not allowed",
            "--allow-install allows it; --cni current measures what is there",
        )
    if ours and not (allowed.install and not allowed.replace) and allowed.replace != context:
        raise RefusedError(
            f"an earlier run installed {present} on the cluster of the context '{context}' ({nodes}"
            " nodes): removing it was not allowed",
            f"--allow-install allows it, or --allow-replace={context}",
        )
    if present and not ours and allowed.replace != context:
        said = f", and --allow-replace names '{allowed.replace}'" if allowed.replace else ""
        raise RefusedError(
            f"the cluster of the context '{context}' ({nodes} nodes) has a CNI ({present}){said}",
            f"--cni current measures it; --allow-replace={context} removes it from all {nodes}"
            " nodes and installs others",
        )
    if strangers:
        raise RefusedError(
            f"{some([name for _, name in strangers])} on the cluster of the context '{context}': no"
            " CNI is changed under them",
            (
                "take them elsewhere first"
                if ours
                else (
                    "use a cluster that runs nothing but itself; --cni current measures what is"
                    " there"
                )
            ),
        )


def lines(
    context: str,
    chosen: Sequence[str],
    strangers: Sequence[tuple[str, str]],
    allowed: Allowed,
    seconds: float,
    volume: float,
    changes: str,
) -> list[str]:
    """What is about to be done, for the user to read before it is."""
    there = [name for node, name in strangers if node in chosen]
    load = (
        f"at most {human(allowed.max_rate, 'bit/s')} a Pod"
        if allowed.max_rate
        else "as fast as the network allows (--max-rate limits it)"
    )
    return [
        f"context {context}: clients on node {chosen[0]}, servers on node {chosen[1]}"
        + (f"; further pairs on {', '.join(chosen[2:])} too" if chosen[2:] else ""),
        f"Pods of others on these nodes: {some(there) if there else 'none'}",
        f"load: {load}"
        + (f", at most about {human(volume, 'B')} in all" if volume else "")
        + f"; about {duration(seconds)} of windows",
        changes,
    ]


def some(names: Sequence[str]) -> str:
    """So many Pods, the first of them by name."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{len(names)} Pod{'s' * (len(names) != 1)} of others ({', '.join(names[:3])}{more})"
