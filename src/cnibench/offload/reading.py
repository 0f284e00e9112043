"""Reads NICs: of this machine from the kernel, of other nodes by the program ethtool there."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from cnibench.errors import CnibenchError
from cnibench.offload import stack
from cnibench.offload.nic import Nic
from cnibench.system import ethtool
from cnibench.system.ethtool_output import parse_driver, parse_features, parse_hash, parse_ports
from cnibench.testbed.place import Place

T = TypeVar("T")
_LIMIT = 30.0  # s


def here(node: str = "this machine") -> list[Nic]:
    """Every device of the calling thread's network namespace but lo."""
    known = stack.here()
    under = {
        low
        for name in _default_devices(_text(Path("/proc/thread-self/net/route")))
        for low in known.carrying(name)
    }
    return [
        replace(one(name, node), underlay=name in under)
        for _, name in socket.if_nameindex()
        if name != "lo"
    ]


def one(name: str, node: str = "this machine") -> Nic:
    """One device. What it does not answer is empty, and ``problem`` says so."""
    nic = Nic(node, name, hardware=Path(f"/sys/class/net/{name}/device").exists())
    driver, refused = _try(lambda: ethtool.driver(name))
    if driver is not None:
        nic = replace(nic, driver=driver[0], version=driver[1], firmware=driver[2], bus=driver[3])
    else:
        nic = replace(nic, problem=f"{name} reports no driver: {refused}")
    features, refused = _try(lambda: ethtool.features(name))
    nic = (
        replace(nic, features=features, source="ioctl")
        if features
        else replace(nic, problem=f"{name}: {refused}")
    )
    ports, _ = _try(lambda: ethtool.tunnel_ports(name))
    queues, _ = _try(lambda: ethtool.queues(name))
    hashed, _ = _try(lambda: ethtool.udp_hash(name))
    return replace(nic, ports=ports, queues=queues or 0, udp_hash=hashed or "")


def there(
    place: Place,
    devices: Sequence[str],
    node: str,
    underlay: Container[str] | None = None,
    hardware: Container[str] = (),
) -> list[Nic]:
    """Those devices of a node, asked by its program ethtool (the node agent's image brings it).
    ``underlay``: those of them that reach other nodes, all when it is None. ``hardware``: those
    that sysfs says are (a driver need not tell its bus).
    """
    return [
        replace(
            _there(place, device, node, device in hardware),
            underlay=underlay is None or device in underlay,
        )
        for device in devices
    ]


def of_node(
    place: Place, device: str, node: str, every: bool = False
) -> tuple[list[Nic], set[int]]:
    """(its hardware and what reaches other nodes, of which ``device`` has its address; UDP ports of
    its VXLAN devices). Raises ClusterError.
    """
    links = json.loads(place.run(["ip", "-j", "-d", "link", "show"], timeout=_LIMIT).stdout)
    names = [str(link["ifname"]) for link in links if link["ifname"] != "lo"]
    known = stack.there(place)
    under = known.carrying(device) if device else frozenset[str]()
    asked = [name for name in names if every or name in under or name in known.hardware]
    return there(place, asked, node, under, known.hardware), {
        int(link["linkinfo"]["info_data"]["port"])
        for link in links
        if link.get("linkinfo", {}).get("info_kind") == "vxlan"
    }


def _there(place: Place, device: str, node: str, hardware: bool) -> Nic:
    features, refused = _said(place, ["ethtool", "-k", device])
    nic = Nic(
        node,
        device,
        features=parse_features(features),
        source="ethtool" if features else "none",
        problem=refused,
    )
    about = parse_driver(_said(place, ["ethtool", "-i", device])[0])
    ports, none = _said(place, ["ethtool", "--show-tunnels", device])
    queues, _ = _said(place, ["sh", "-c", 'ls -d /sys/class/net/"$0"/queues/rx-*', device])
    hashed, _ = _said(place, ["ethtool", "-n", device, "rx-flow-hash", "udp4"])
    return replace(
        nic,
        driver=about.get("driver", ""),
        version=about.get("version", ""),
        firmware=about.get("firmware-version", ""),
        bus=about.get("bus-info", ""),
        hardware=hardware or bool(about.get("bus-info")),
        ports=None if none else parse_ports(ports),
        queues=len(queues.split()),
        udp_hash=parse_hash(hashed),
    )


def vxlan_ports() -> list[int]:
    """UDP ports of the VXLAN devices of the calling thread's network namespace."""
    from pyroute2 import IPRoute

    with IPRoute() as ipr:
        return sorted(set(_ports_of(ipr.get_links(kind="vxlan"))))


def _ports_of(links: Iterable[Any]) -> Iterator[int]:
    for link in links:
        port = link.get(("linkinfo", "data", "vxlan_port"))
        if port:
            yield int(port)


def _default_devices(routes: str) -> set[str]:
    """The devices of default routes in /proc/net/route."""
    rows = [line.split() for line in routes.splitlines()[1:]]
    return {row[0] for row in rows if len(row) > 7 and row[1] == row[7] == "00000000"}


def _said(place: Place, argv: Sequence[str]) -> tuple[str, str]:
    """(output, why there is none)."""
    try:
        done = place.run(argv, timeout=_LIMIT, check=False)
    except CnibenchError as error:
        return "", error.message
    return (
        (done.stdout, "")
        if done.returncode == 0
        else ("", (done.stderr or done.stdout).strip()[:200])
    )


def _try(ask: Callable[[], T]) -> tuple[T | None, str]:
    try:
        return ask(), ""
    except OSError as error:
        return None, error.strerror or str(error)
    except (struct.error, KeyError, IndexError, UnicodeDecodeError) as error:
        return None, f"an answer that cannot be read ({type(error).__name__})"


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
