"""Program: one machine's side of the lab, in its tree of namespaces. Requests and answers are lines
of JSON on standard input and output, as those of run/slices/on_node.py.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import msgspec

from cnibench.clusters.lab.attestation import checks, probe
from cnibench.clusters.lab.builders.base import builder_of
from cnibench.clusters.lab.cluster import LabCluster
from cnibench.clusters.lab.namespaces import features, links, nic_wire, tree
from cnibench.clusters.lab.namespaces.nic_wire import Nic
from cnibench.clusters.lab.namespaces.places import LabPod
from cnibench.clusters.lab.remote.probes import Receiver, Watched, send_datagram, send_stream
from cnibench.clusters.lab.remote.side import Side
from cnibench.errors import ClusterError, CnibenchError, as_data
from cnibench.model.profile import Profile
from cnibench.system import ethtool
from cnibench.testbed.cluster import Options, Problem

_LIMIT = 3.0  # s for a probe to arrive


class _Own(LabCluster):
    """The lab on this machine's kernel: a VM would not have the NIC that is measured."""

    elsewhere: ClassVar[str] = ""


class Sides:
    """``own`` is 0 on the clients' machine, 1 on the servers'."""

    def __init__(self) -> None:
        self._own = 0
        self._nic = Nic("", "000000")
        self._options = Options()
        self._sides: dict[str, Side] = {}
        self._receivers: dict[int, Receiver] = {}
        self._watched: Watched | None = None

    def begin(self, own: int, device: str, run: str, options: dict[str, Any]) -> dict[str, Any]:
        """What is the same for all deployments of a run."""
        self._own, self._nic = own, Nic(device, run)
        self._options = Options(
            mtu=options["mtu"],
            congestion_control=options["congestion_control"],
            settings=options["settings"],
        )
        return {}

    def missing(self, programs: Sequence[str]) -> dict[str, Any]:
        """Why the lab cannot work here, and which of these programs are not installed."""
        found = [_told(one) for one in _Own(self._options).missing()]
        with nic_wire.machine():
            feature = {name: one.on for name, one in ethtool.features(self._nic.device).items()}
        absent = [one for one in programs if shutil.which(one) is None]
        return {"problems": found, "absent": absent, "features": feature, "python": sys.version}

    def check(self, profile: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
        """What a profile lacks here."""
        given = Profile.model_validate(profile)
        own = replace(self._options, settings={"": settings})
        problems = _Own(own).check(given)
        if not problems and not (builder := builder_of(given, settings))[0].between_machines:
            problems = [_not_between(given, "works within one machine only")]
        elif not problems and builder[1].model_dump().get("tunnel_offload") is False:
            problems = [_not_between(given, "would change the offloads of the machines' NICs")]
        return {"problems": [_told(one) for one in problems]}

    def make(self, label: str, profile: dict[str, Any], deployment: int) -> dict[str, Any]:
        """A deployment, in place of an earlier one of that label."""
        self.remove(label)
        given = Profile.model_validate(profile)
        side = Side(label, given, self._options, deployment, self._nic, self._own)
        self._sides[label] = side
        return {
            "proxy": side.proxy,
            "mtu": side.mtu,
            "path_mtu": side.path_mtu,
            "pods": [_pod(pod) for pod in side.made],
            "nodes": [{"netns": str(node.ns.path), "wire": node.wire} for node in side.nodes()],
            "tunnels": [side.datapath.tunnel_on(node, 4) for node in side.nodes()],
            "settings": side.settings,
            "unheld": side.unheld(),
            "wire_features": features.read(side.node.ns, side.node.wire),
        }

    def remove(self, label: str) -> dict[str, Any]:
        side = self._sides.pop(label, None)
        if side is not None:
            side.remove()
        return {}

    def reset(self, label: str) -> dict[str, Any]:
        self._sides[label].reset_state()
        return {}

    def alive(self, label: str) -> dict[str, Any]:
        return {"died": self._sides[label].alive()}

    def compare(self, label: str) -> dict[str, Any]:
        """What the kernel has of it, against the same deployment made once more."""
        return {"found": [msgspec.to_builtins(one) for one in self._sides[label].verify()]}

    def inside(self, label: str) -> dict[str, Any]:
        """Traffic within the clients' node."""
        found = checks.inside(self._sides[label], 4)
        return {"found": [msgspec.to_builtins(one) for one in found]}

    def counters(self, label: str, device: str) -> dict[str, Any]:
        """Of a device of this machine's node."""
        return dict(links.statistics(self._sides[label].node.ns, device))

    def device_mtu(self, label: str, pod: str) -> dict[str, Any]:
        side = self._sides[label]
        one = self._named(side, pod)
        return {"mtu": links.mtu(one.ns, one.interface or side.node.wire)}

    def stranger_reached(self, label: str, pod: str) -> dict[str, Any]:
        """Does its own node reach it?"""
        side = self._sides[label]
        one = self._named(side, pod)
        return {"failure": probe.stream(side.node.ns, one.ns, one.addresses[4], 4, 1)}

    def listen(self, label: str, pod: str, port: int = 0, stream: bool = True) -> dict[str, Any]:
        """Begins to wait for a stream, or a datagram."""
        one = self._named(self._sides[label], pod)
        receiver = Receiver(one.ns, one.addresses[4], port, stream)
        handle = id(receiver)
        self._receivers[handle] = receiver
        return {"handle": handle, "address": one.addresses[4], "port": receiver.port}

    def arrived(self, handle: int, size: int, limit: float) -> dict[str, Any]:
        """What came there. Ends waiting."""
        receiver = self._receivers.pop(handle)
        receiver.wait(size, limit)
        receiver.close()
        return {"bytes": receiver.got, "accepted": receiver.accepted}

    def stream(
        self, label: str, pod: str, target: list[Any], size: int, limit: float = _LIMIT
    ) -> dict[str, Any]:
        one = self._named(self._sides[label], pod)
        return {"failure": send_stream(one.ns, (target[0], target[1]), size, limit)}

    def datagram(self, label: str, pod: str, target: list[Any], packet: int) -> dict[str, Any]:
        one = self._named(self._sides[label], pod)
        return {"failure": send_datagram(one.ns, (target[0], target[1]), packet)}

    def watch(self, label: str) -> dict[str, Any]:
        """Begins to watch what leaves this machine."""
        if self._watched is not None:
            self._watched.close()
        self._watched = Watched(self._sides[label])
        return {}

    def seen(self, label: str, opener: str, server: str) -> dict[str, Any]:
        """What has left this machine of a connection, from its opener and to it."""
        watched, self._watched = self._watched, None
        if watched is None:
            raise ClusterError("nothing is watched")
        side = self._sides[label]
        on_wire = side.datapath.on_wire
        one, other = self._named(side, opener), self._named(side, server)
        data, replies = watched.between(
            [
                (
                    on_wire(one, 4, opener=True, source=True),
                    on_wire(other, 4, opener=False, source=False),
                ),
                (
                    on_wire(other, 4, opener=False, source=True),
                    on_wire(one, 4, opener=True, source=False),
                ),
            ]
        )
        return {"data": data, "replies": replies}

    def _named(self, side: Side, pod: str) -> LabPod:
        return next(one for one in side.made if one.name == pod)


def _pod(pod: LabPod) -> Mapping[str, Any]:
    return {
        "name": pod.name,
        "node": pod.node.number,
        "role": pod.role,
        "address": pod.addresses[4],
        "interface": pod.interface,
        "netns": str(pod.ns.path),
    }


def _told(problem: Problem) -> dict[str, str]:
    return {"lacks": problem.lacks, "remedy": problem.remedy, "kind": problem.kind}


def _not_between(profile: Profile, why: str) -> Problem:
    return Problem(
        profile.name, f"its model {why}", "measure it with --cluster lab, or on Kubernetes"
    )


def main() -> None:
    """Until its input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints is no answer
    sides = Sides()
    for line in sys.stdin:
        request = json.loads(line)
        number = request.pop("number", 0)
        try:
            answer = getattr(sides, request.pop("do"))(**request)
        except CnibenchError as error:
            answer = as_data(error)
        print(json.dumps({**answer, "number": number}), file=answers, flush=True)


if __name__ == "__main__":
    assert tree.kind()
    main()
