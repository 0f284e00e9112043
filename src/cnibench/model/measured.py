"""Which machines a run measured, as its env.json has them: the nodes of a cluster, the two machines
that the lab was between, or else the machine that ran the command.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cnibench.model.context import fact

_OF_NODES = {"kernel": "kernelVersion"}  # a fact as Kubernetes calls it
_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}  # as Kubernetes names them


def apart(environment: Mapping[str, Any]) -> bool:
    """Are the machines that were measured not the one that ran the command? An imported run has the
    facts of the machines that were measured as its own.
    """
    if environment.get("imported"):
        return False
    testbed = environment.get("testbed")
    return testbed == "cluster" or (testbed == "lab" and bool(nodes(environment)))


def values(environment: Mapping[str, Any], name: str) -> list[str]:
    """The values of a fact of the machines that were measured, each once; none where it was not
    recorded.
    """
    if apart(environment):
        own = _OF_NODES.get(name, name)
        found = [one.get(name) or one.get(own) for one in nodes(environment)]
    else:
        found = [fact(environment, name)]
    said = {str(one) for one in found if one not in (None, "")}
    return sorted(_ARCHITECTURES.get(one, one) for one in said)


def nodes(environment: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What is known of each node."""
    known = environment.get("nodes")
    every = known.values() if isinstance(known, Mapping) else ()
    return [one for one in every if isinstance(one, Mapping)]


def nic(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """'driver' and 'speed' of a node's NIC, {} if it is not known. Of a machine that was asked over
    ssh they are among its own facts.
    """
    device = node.get("device")
    if isinstance(device, Mapping):
        return device
    return node if isinstance(device, str) and "driver" in node else {}
