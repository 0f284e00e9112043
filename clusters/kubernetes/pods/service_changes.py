"""A Service that comes, or gets its endpoint, while a client tries to reach it
(testbed.capabilities.service_changes).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from cnibench.clusters.kubernetes.api import objects
from cnibench.clusters.kubernetes.api.rest import Rest
from cnibench.clusters.kubernetes.nodes import service_rules
from cnibench.clusters.kubernetes.nodes.places import KubernetesPod
from cnibench.clusters.kubernetes.pods import other_services, paths
from cnibench.clusters.kubernetes.pods.measured import MeasuredPods
from cnibench.errors import UnsupportedError
from cnibench.testbed.capabilities.service_changes import Change, Coming
from cnibench.testbed.deployment import undone

_LIMIT = 60.0  # s: kube-proxy writes at most once in minSyncPeriod, which is 1 s by default


@contextlib.contextmanager
def changing(
    deployment: MeasuredPods, server: KubernetesPod, family: int, port: int, change: Change
) -> Iterator[Coming]:
    """``service``: a Service with a selector, whose EndpointSlice the control plane writes; its
    address was that of another one, which is gone. ``endpoint``: an EndpointSlice of ours, in which
    the server takes the place of an address that no Pod has. Raises UnsupportedError, LimitError,
    ClusterError.
    """
    making, rest = deployment.making, Rest(deployment.access)
    core = f"/api/v1/namespaces/{making.namespace}/services"
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{making.namespace}/endpointslices"
    name = f"{server.pod}-changed"
    service = objects.service(
        making, name, server.pod, [port], node_port=False, families=(family,), protocols=("TCP",)
    )
    bare = {key: value for key, value in service["spec"].items() if key != "selector"}
    nobody = other_services.endpoint_slice(
        service["metadata"], family, [other_services.NOBODY[family][0]], port, name
    )
    nobody["ports"][0]["name"] = bare["ports"][0]["name"]
    made: dict[str, str] = {}  # path to UID

    def create(path: str, item: dict[str, Any]) -> dict[str, Any]:
        found = rest.create(path, item)
        made[f"{path}/{name}"] = str(found["metadata"]["uid"])
        return found

    def delete() -> None:
        for path, uid in made.items():
            rest.delete(path, uid)
        made.clear()
        known(gone=True)

    def known(gone: bool = False) -> None:
        service_rules.wait_known(
            (deployment.nodes()[0], server.node),
            deployment.proxy,
            making.namespace,
            {name: address},
            _LIMIT,
            gone=gone,
        )

    address = ""
    service_rules.require_readable(deployment.nodes()[0], deployment.proxy)
    with undone(deployment, "a Service", delete):
        create(slices, nobody)
        address = paths.cluster_ips(create(core, {**service, "spec": bare})).get(family, "")
        if not address:
            raise UnsupportedError(
                f"{deployment.label}: Services have no IPv{family} address on this cluster"
            )
        known()
        if change == "service":
            delete()
            service["spec"]["clusterIP"] = address

            def make() -> None:
                create(core, service)
        else:
            uid = made[f"{slices}/{name}"]
            ready = {"addresses": [server.addresses[family]], "conditions": {"ready": True}}

            def make() -> None:
                rest.patch(f"{slices}/{name}", {"metadata": {"uid": uid}, "endpoints": [ready]})

        yield Coming(address, port, make)
