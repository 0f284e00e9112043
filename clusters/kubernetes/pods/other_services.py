"""Services as a condition of a cell on a cluster: so many in addition to the measured one, with
endpoints that no Pod has. They are created, awaited in the kernels of the measured nodes, and
deleted.
"""

from __future__ import annotations

import contextlib
import ipaddress
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from cnibench.clusters.kubernetes.api.objects import Making
from cnibench.clusters.kubernetes.nodes import service_rules
from cnibench.clusters.kubernetes.pods import paths
from cnibench.clusters.kubernetes.pods.measured import MeasuredPods
from cnibench.errors import UnsupportedError
from cnibench.model.conditions import Services
from cnibench.testbed.deployment import undone

Object = dict[str, Any]
CONDITION = "cnibench.io/condition"  # label: which condition made the object
_OURS = f"{CONDITION}=services"
_PORT, _TARGET = 80, 8080
# RFC 2544 and RFC 3849: no Pod has such an address.
NOBODY = {4: ("198.18.0.0", 1 << 17), 6: ("2001:db8::", 1 << 20)}
_AT_ONCE = 8  # requests
# s that each takes, made and deleted: 10,000 on kind, whose two nodes shared two CPUs
SECONDS = 0.08
_QUICK, _EACH = 60.0, 0.05  # s for nothing, and for each object or endpoint
_T = TypeVar("_T")


@contextlib.contextmanager
def applied(deployment: MeasuredPods, asked: Services) -> Iterator[list[Object]]:
    """The Services of a condition, for the block; one record. Raises UnsupportedError, LimitError,
    ClusterError.
    """
    record = {"condition": "services", **asked.model_dump(mode="json"), "proxy": deployment.proxy}
    if not asked.count:
        yield [{**record, "found": {}, "seconds": 0.0}]
        return
    making, access, family = deployment.making, deployment.access, deployment.families[0]
    limit = _QUICK + _EACH * asked.count * (1 + asked.endpoints)
    nodes = deployment.nodes()
    service_rules.require_readable(nodes[0], deployment.proxy)
    numbers = range(asked.count)
    addresses: dict[str, str] = {}

    def wait(gone: bool = False) -> None:
        service_rules.wait_known(
            nodes, deployment.proxy, making.namespace, addresses, limit, gone=gone
        )

    def take_back() -> None:
        access.delete("endpointslices.discovery.k8s.io", making.namespace, _OURS)
        access.delete("services", making.namespace, _OURS)
        wait(gone=True)

    with undone(deployment, "Services", take_back):
        began = time.monotonic()
        _each(numbers, lambda n: access.create(endpoints(making, family, n, asked.endpoints)))
        made = _each(numbers, lambda n: access.create(service(making, family, n))[0])
        for one in made:
            own = paths.cluster_ips(one)
            if family not in own:
                raise UnsupportedError(
                    f"{deployment.label}: Services have no IPv{family} address on this cluster"
                )
            addresses[one["metadata"]["name"]] = own[family]
        wait()
        found = {node.name: len(addresses) for node in nodes}
        yield [{**record, "found": found, "seconds": time.monotonic() - began}]
        wait()


def service(making: Making, family: int, number: int) -> Object:
    """One without a selector: nobody but us says what is behind it."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(making, number),
        "spec": {
            "type": "ClusterIP",
            "ipFamilies": [f"IPv{family}"],
            "ports": [{"port": _PORT, "targetPort": _TARGET, "protocol": "TCP"}],
        },
    }


def endpoints(making: Making, family: int, number: int, count: int) -> Object:
    """``count`` endpoints of Service ``number`` that no Pod is."""
    base, size = NOBODY[family]
    first = number * count
    addresses = [
        str(ipaddress.ip_address(base) + each % size) for each in range(first, first + count)
    ]
    return endpoint_slice(
        _metadata(making, number), family, addresses, _TARGET + first // size, f"other-{number:05d}"
    )


def endpoint_slice(
    metadata: Object, family: int, addresses: Sequence[str], port: int, service: str
) -> Object:
    """What is behind one port of a Service that has no selector (discovery.k8s.io/v1)."""
    labels = {
        **metadata["labels"],
        "kubernetes.io/service-name": service,
        "endpointslice.kubernetes.io/managed-by": "cnibench",
    }
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {**metadata, "labels": labels},
        "addressType": f"IPv{family}",
        "endpoints": [{"addresses": [one], "conditions": {"ready": True}} for one in addresses],
        "ports": [{"name": "", "port": port, "protocol": "TCP"}],
    }


def _metadata(making: Making, number: int) -> Object:
    return {
        "name": f"other-{number:05d}",
        "namespace": making.namespace,
        "labels": {**making.labels(), CONDITION: "services"},
    }


def _each(items: Sequence[Any], what: Callable[[Any], _T]) -> list[_T]:
    """What it gave for each, in their order. Raises what it raised first; the rest is not begun."""
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        jobs = [pool.submit(what, item) for item in items]
        try:
            return [job.result() for job in jobs]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
