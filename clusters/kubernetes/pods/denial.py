"""UDP to one port denied, so that the time can be taken until it is: the request is ready and sent
without anything in between.

A NetworkPolicy can only allow. So one is made that lets nothing but TCP into our Pods, and those
that let the pair in by everything do it by TCP alone meanwhile. Cilium's and Calico's own policies
can deny.
"""

from __future__ import annotations

import contextlib
import json
import time
from typing import IO

from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.pods import policies, policy_objects, unsupported
from cnibench.clusters.kubernetes.pods.measured import MeasuredPods
from cnibench.clusters.kubernetes.pods.policy_objects import Kind, Object
from cnibench.errors import ClusterError, LimitError, UnsupportedError
from cnibench.system import process as programs
from cnibench.system.process import Process

# s that kubectl is given to come to where it reads the objects; what it has not done by then is
# measured with the rest
_BEGINNING = 1.0
_DONE = 60.0  # s


class Denying:
    """A kubectl that waits for the objects, and then makes them."""

    def __init__(self, access: Access, objects: list[Object], kinds: set[Kind]) -> None:
        self.kinds = kinds
        self._access = access
        self._text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}).encode()
        self._said = programs.Errors()
        argv = access.command("apply", "--server-side", "--force-conflicts", "-f", "-")
        self._sent = False
        self._process: Process
        self._given: IO[bytes]
        self._process, self._given, self._output = programs.converse(argv, self._said)
        time.sleep(_BEGINNING)

    def send(self) -> None:
        """Raises ClusterError when kubectl has ended before."""
        self._sent = True
        try:
            left = memoryview(self._text)
            while left:
                left = left[self._given.write(left) :]
            self._given.close()
        except OSError:
            raise ClusterError(f"kubectl did not take the policies: {self._words()}") from None

    def end(self) -> None:
        """Raises ClusterError, LimitError when they were not made."""
        with contextlib.suppress(OSError):
            self._given.close()
        try:
            with self._process, self._output:
                status = self._process.wait(_DONE)
            if status and self._sent:
                raise ClusterError(f"the policies could not be made: {self._words()}")
        except LimitError:
            raise LimitError(
                f"the API server took no policies within {_DONE:.0f} s",
                "does it answer? kubectl get nodes",
            ) from None
        finally:
            self._said.close()

    def _words(self) -> str:
        return self._access.hidden(self._said.text()[-300:]) or "it said nothing"


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
