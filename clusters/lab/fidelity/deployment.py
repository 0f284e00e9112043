"""A deployment whose datapath the CNI's real agent makes, from the nodes and Pods that a real API
server has.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cnibench.clusters.lab.builders.base import Datapath
from cnibench.clusters.lab.builders.filtered import Filtered
from cnibench.clusters.lab.daemons.processes import Daemons
from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.fidelity import plugin
from cnibench.clusters.lab.fidelity.adapter import Adapter, Object, Site
from cnibench.clusters.lab.fidelity.api_server import ApiServer
from cnibench.clusters.lab.fidelity.nodes import NodeFiles
from cnibench.clusters.lab.fidelity.programs import version
from cnibench.clusters.lab.namespaces.places import LabNode, LabPod
from cnibench.clusters.lab.rules.ruleset import save_text
from cnibench.errors import ClusterError
from cnibench.listing.listing import listing
from cnibench.model.cell import Attestation
from cnibench.model.profile import Profile
from cnibench.testbed.cluster import Options

_ACCOUNT = "default"
_READY = 60.0  # s
_SAID = 4  # lines of an agent that ended
_STILL, _LOOK, _SETTLED = 2.0, 0.2, 30.0  # s: nothing changes for so long; between looks; at most
_LIMIT = 20.0  # s for one restore


@dataclass(frozen=True)
class Setup:
    """What an agent needs: its program, those of the API server, and the folder of CNI plugins.
    ``objects`` are created before it starts, beyond the adapter's own.
    """

    adapter: type[Adapter]
    program: str
    servers: Mapping[str, str]
    plugins: Path
    objects: Sequence[Object] = field(default=())

    def ordered(self, adapter: Adapter) -> Sequence[Object]:
        """All objects: those that are given define the kinds of the adapter's own."""
        return (*self.objects, *adapter.objects())


class AgentDeployment(LabDeployment):
    """The same nodes, wire and Pods as of any deployment."""

    def __init__(
        self,
        label: str,
        profile: Profile,
        options: Options,
        number: int,
        setup: Setup,
        like: LabDeployment | None = None,
    ) -> None:
        """Raises ClusterError; nothing stays then."""
        self.setup = setup
        super().__init__(label, profile, options, number, like)
        self.settle()

    def _datapath(self, model: Datapath) -> Datapath:
        return AgentDatapath(self, model)

    @property
    def version(self) -> str:
        """Of the agent, as its program prints it."""
        assert isinstance(self.datapath, AgentDatapath)
        return self.datapath.version

    def settle(self) -> None:
        """Waits until the agent changes nothing any more. Raises ClusterError."""
        places = {node.name: node.ns for node in self.nodes()}
        limit = time.monotonic() + _SETTLED
        before, since = listing(places), time.monotonic()
        while time.monotonic() - since < _STILL:
            if died := self.datapath.alive():
                raise ClusterError(died, self.setup.adapter.remedy())
            if time.monotonic() > limit:
                raise ClusterError(
                    f"{self.setup.adapter.name} still changes the nodes after {_SETTLED:g} s",
                    self.setup.adapter.remedy(),
                )
            time.sleep(_LOOK)
            now = listing(places)
            if now != before:
                before, since = now, time.monotonic()

    def verify(self) -> list[Attestation]:
        """Nothing: what it is compared with is the model, and that is the certificate's."""
        return []


class AgentDatapath(Datapath):
    """``model`` is the profile's own, which is not built: it says what the profile claims."""

    name = "agent"

    def __init__(self, deployment: AgentDeployment, model: Datapath) -> None:
        super().__init__(deployment, model.options)
        self.setup = deployment.setup
        self.model = model
        self.adapter = self.setup.adapter(model)
        self.daemons = Daemons(deployment.number)
        self.server = ApiServer(deployment.a, self.daemons, self.setup.servers)
        self.version = ""  # as the program prints it
        self._ended = ""  # which process ended before ``remove``
        self._files: dict[str, NodeFiles] = {}
        self._sites: dict[str, Site] = {}

    @property
    def tunnel(self) -> str:
        return self.model.tunnel

    def tunnel_on(self, node: LabNode, family: int) -> str:
        return self.model.tunnel_on(node, family)

    def on_wire(self, pod: LabPod, family: int, *, opener: bool, source: bool) -> str:
        return self.model.on_wire(pod, family, opener=opener, source=source)

    def underlay_features(self, node: LabNode) -> dict[str, bool]:
        return self.model.underlay_features(node)

    def build(self) -> None:
        self.server.start()
        for node in self.deployment.nodes():
            self.server.create(self._node(node))
        self.server.create(_object("Namespace", plugin.NAMESPACE))
        self.server.create(_object("ServiceAccount", _ACCOUNT, plugin.NAMESPACE))
        for one in self.setup.ordered(self.adapter):
            self.server.create(one)
        for node in self.deployment.nodes():
            self._others_rules(node)
            self._files[node.name] = NodeFiles(node, self.daemons, self.adapter.private)
        for node in self.deployment.nodes():
            self._start(node)
        for site in self._sites.values():
            self.daemons.wait(
                f"{self.adapter.name} is ready on node {site.node.name}",
                lambda site=site: self.adapter.ready(site),  # type: ignore[misc]
                _READY,
                self.setup.adapter.remedy(),
                lines=_SAID,
            )
            self.adapter.complete(site.node)
        first = self._files[self.deployment.a.name]
        self.version = version(first.enter([self.setup.program, *self.adapter.version]))

    def _node(self, node: LabNode) -> Object:
        families = self.deployment.families
        cidrs = [node.subnets[family] for family in families]
        found = _object("Node", node.name)
        found["metadata"]["labels"] = {"kubernetes.io/hostname": node.name}
        found["metadata"]["annotations"] = dict(self.adapter.annotations(node))
        found["spec"] = {"podCIDR": cidrs[0], "podCIDRs": cidrs}
        addresses = [
            {"type": "InternalIP", "address": node.addresses[family]} for family in families
        ]
        found["status"] = {
            "addresses": [*addresses, {"type": "Hostname", "address": node.name}],
            "conditions": [{"type": "Ready", "status": "True", "reason": "Lab"}],
        }
        return found

    def _others_rules(self, node: LabNode) -> None:
        """kube-proxy's and the kubelet's, which are no agent's: the model's."""
        if not isinstance(self.model, Filtered) or not getattr(self.options, "kube_proxy", True):
            return
        for family in self.deployment.families:
            name = "iptables" if family == 4 else "ip6tables"
            text = save_text((self.model.kube_proxy(node, family),))
            node.ns.run([f"{name}-{self.options.iptables}-restore"], input=text, timeout=_LIMIT)

    def _start(self, node: LabNode) -> None:
        files = self._files[node.name]
        config = files.folder / "kubeconfig"
        config.write_text(self.server.kubeconfig())
        site = Site(node, files.folder, config, Path(self.setup.program))
        self._sites[node.name] = site
        for path, text in self.adapter.files(site).items():
            path.write_text(text)
        self.daemons.start(
            f"{self.adapter.name} on node {node.name}",
            node.ns,
            files.enter([self.setup.program, *self.adapter.arguments(site)]),
            env=self.adapter.environment(site),
        )

    def connect(self, pod: LabPod) -> Iterator[str]:
        site = self._sites[pod.node.name]
        self.server.create(self._pod(pod))
        if port := self.adapter.ports(pod):
            pod.host_end = port
        config = self.adapter.network(site, pod)
        made = plugin.add(self._files[pod.node.name], self.setup.plugins, config, pod)
        if died := self.alive():
            raise ClusterError(died, self.setup.adapter.remedy())
        pod.host_end = made.port or pod.host_end
        pod.addresses = made.addresses
        yield "plugin"

    def _pod(self, pod: LabPod) -> Object:
        found = _object("Pod", pod.name, plugin.NAMESPACE)
        found["metadata"]["labels"] = {"cnibench": pod.role}
        found["spec"] = {
            "nodeName": pod.node.name,
            "serviceAccountName": _ACCOUNT,  # as the admission plugin would write that is off
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "none"}],
        }
        addresses = [{"ip": address} for address in pod.addresses.values()]
        found["status"] = {
            "phase": "Running",
            "hostIP": pod.node.addresses[4],
            "podIP": addresses[0]["ip"],
            "podIPs": addresses,
        }
        return found

    def disconnect(self, pod: LabPod) -> None:
        config = self.adapter.network(self._sites[pod.node.name], pod)
        plugin.delete(self._files[pod.node.name], self.setup.plugins, config, pod)

    def alive(self) -> str:
        """Also after ``remove``: what had ended by then."""
        return self._ended or self.daemons.alive(_SAID)

    def remove(self) -> None:
        self._ended = self.alive()
        self.daemons.stop()


def _object(kind: str, name: str, namespace: str = "") -> dict[str, Any]:
    where = {"namespace": namespace} if namespace else {}
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **where}}
