"""Offload features of a device in a namespace, by the kernel's own names."""

from __future__ import annotations

from collections.abc import Mapping

from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.errors import ClusterError
from cnibench.system import ethtool

NO_CHECKSUM_OFFLOAD: Mapping[
    str, bool
] = {  # `ethtool -K DEVICE tx off`: segmentation goes with the checksum
    "tx-checksum-ip-generic": False,
    "tx-tcp-segmentation": False,
    "tx-tcp6-segmentation": False,
    "tx-tcp-ecn-segmentation": False,
}


def read(ns: Namespace, device: str) -> dict[str, bool]:
    """Feature name to whether it is active. Raises ClusterError."""
    try:
        with ns.inside():
            return {name: feature.on for name, feature in ethtool.features(device).items()}
    except OSError as error:
        raise ClusterError(
            f"{ns.name}: the features of {device} cannot be read: {error.strerror}"
        ) from None


def write(ns: Namespace, device: str, wanted: Mapping[str, bool]) -> None:
    """Sets features; those that this kernel does not know count as off. Raises ClusterError when
    one does not become what was asked.
    """
    try:
        with ns.inside():
            ethtool.set_features(device, wanted)
    except OSError as error:
        raise ClusterError(
            f"{ns.name}: the features of {device} cannot be set: {error.strerror}"
        ) from None
    now = read(ns, device)
    wrong = [
        f"{name} stays {'off' if on else 'on'}"
        for name, on in wanted.items()
        if now.get(name, False) != on
    ]
    if wrong:
        raise ClusterError(f"{ns.name}: {device}: {', '.join(wrong)}")
