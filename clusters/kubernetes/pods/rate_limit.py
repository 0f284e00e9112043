"""--max-rate: what a Pod may send, by a token bucket on its own device. The node is not touched."""

from __future__ import annotations

from cnibench.clusters.kubernetes.nodes.places import KubernetesPod
from cnibench.errors import ClusterError, CnibenchError, UnsupportedError

_BURST = (
    256 << 10
)  # bytes: some super-packets of 64 KiB, so that segmentation offload stays as it is
_LATENCY = "50ms"  # what waits longer is dropped


def cap(pod: KubernetesPod, rate: float) -> None:
    """Caps it at ``rate`` bit/s, proven by reading back. Raises UnsupportedError where that cannot
    be, ClusterError.
    """
    if not pod.interface:
        raise UnsupportedError(
            f"{pod.name} uses its node's network: --max-rate cannot cap it without capping the"
            " node",
            "leave that path out",
        )
    argv = [
        "tc",
        "qdisc",
        "replace",
        "dev",
        pod.interface,
        "root",
        "tbf",
        "rate",
        f"{rate:.0f}bit",
        "burst",
        str(_BURST),
        "latency",
        _LATENCY,
    ]
    try:
        pod.run(argv, timeout=20)
        seen = pod.run(["tc", "qdisc", "show", "dev", pod.interface], timeout=20).stdout
    except CnibenchError as error:
        raise UnsupportedError(
            f"{pod.name} cannot be capped: {error.message}",
            "it takes NET_ADMIN in the Pod and the kernel's sch_tbf",
        ) from None
    if "tbf" not in seen:
        raise ClusterError(f"{pod.name} is not capped: {seen.strip()[:100]}")
