"""UDP to one port denied, so that the time can be taken until it is: the request is ready and sent
without anything in between.

A NetworkPolicy can only allow. So one is made that lets nothing but TCP into our Pods, and those
that let the pair in by everything do it by TCP alone meanwhile. Cilium's and Calico's own policies
can deny.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.pods import policies, policy_objects, unsupported
from cnibench.clusters.kubernetes.pods.measured import MeasuredPods
from cnibench.clusters.kubernetes.pods.policy_objects import Kind, Object
from cnibench.errors import UnsupportedError

_DONE = 60.0  # s


class Denying:
    """Objects that are created at once when requested, over an open connection."""

    def __init__(self, access: Access, objects: list[Object], kinds: set[Kind]) -> None:
        """Raises ClusterError when the API server would not take them."""
        self.kinds = kinds
        self._access = access
        self._objects = objects
        self._applied: Future[object] | None = None
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="cnibench-denial")
        # The thread has begun, its connection is open, and kinds are known.
        self._pool.submit(access.apply, *objects, dry_run=True, timeout=_DONE).result()

    def send(self) -> None:
        """Returns at once."""
        self._applied = self._pool.submit(self._access.apply, *self._objects, timeout=_DONE)

    def end(self) -> None:
        """Raises ClusterError when they were not made."""
        self._pool.shutdown()
        if self._applied is not None:
            self._applied.result()


def prepare(deployment: MeasuredPods, port: int) -> Denying:
    """What denies UDP to ``port`` as soon as it is sent. Raises UnsupportedError where
    nothing would come of it.
    """
    if reason := unsupported.enforcing(deployment.profile):
        raise UnsupportedError(f"{deployment.label}: {reason}")
    own: set[Kind] = {kind for kind, _ in deployment.restrict.values() if kind != "kubernetes"}
    if own:
        objects = [policy_objects.denial(deployment.making, kind, port) for kind in sorted(own)]
    else:
        objects = [
            *_letting_in(deployment, tcp_only=True),
            policy_objects.only_tcp(deployment.making),
        ]
    return Denying(deployment.access, objects, own or {"kubernetes"})


def end(deployment: MeasuredPods, denying: Denying) -> None:
    """Nothing is denied any more. Raises ClusterError, also when it never was."""
    try:
        denying.end()
    finally:
        for kind in denying.kinds:
            policies.delete(deployment, kind, "denial", 1)
        if changed := _letting_in(deployment, tcp_only=False):
            deployment.access.apply(*changed)


def _letting_in(deployment: MeasuredPods, *, tcp_only: bool) -> list[Object]:
    """The NetworkPolicies that let the pair in, by TCP alone or as they are."""
    found = [
        item
        for kind, build in deployment.restrict.values()
        if kind == "kubernetes"
        for item in build(tcp_only)
    ]
    if deployment.profile.kubernetes and deployment.profile.kubernetes.policy == "enforced":
        found += policy_objects.pairs(deployment.namespace, tcp_only=tcp_only)
    return found
