"""BGP EVPN by FRR: what each of its daemons reads, how they are started in a namespace, and what
they say.

Configuration as docs.frrouting.org/en/stable-8.4/bgp.html and /zebra.html describe it. Each daemon
has its sockets, files and /var/tmp in the deployment's own folder: nothing of a FRR that the
machine itself runs is touched.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cnibench.clusters.lab.daemons.processes import Daemons
from cnibench.clusters.lab.namespaces.netns import Namespace

FOLDER = "/usr/lib/frr"
PROGRAMS = {f"{FOLDER}/zebra": "frr", f"{FOLDER}/bgpd": "frr", "vtysh": "frr"}
ROUTE_SERVER_AS = 65000
_START = 15.0  # s
_ASK = 20.0  # s
# In mounts of its own: FRR keeps a folder per process in /var/tmp, which a killed one leaves; and a
# daemon that stays root (another user
# would clear its parent-death signal) insists on root being in the group of FRR's sockets.
_PRIVATE = 'mount -t tmpfs tmpfs /var/tmp && mount --bind "$0" /etc/group && exec "$@"'
_GROUPS = "root:x:0:\nfrrvty:x:0:root\n"


def node_as(number: int) -> int:
    """The autonomous system of a node."""
    return ROUTE_SERVER_AS + 1 + number


def node_config(number: int, router_id: str, route_server: str, vnis: Iterable[int]) -> str:
    """bgpd of a node: one session, with the route server; all VNIs announced. The route targets are
    the same in all nodes' own AS.
    """
    segments = "".join(
        f"  vni {vni}\n   route-target both {ROUTE_SERVER_AS}:{vni}\n  exit-vni\n" for vni in vnis
    )
    return (
        f"log stdout\nrouter bgp {node_as(number)}\n bgp router-id {router_id}\n no bgp default"
        " ipv4-unicast\n no bgp ebgp-requires-policy\n no bgp enforce-first-as\n neighbor"
        f" {route_server} remote-as {ROUTE_SERVER_AS}\n neighbor {route_server} timers connect 1\n"
        f" address-family l2vpn evpn\n  neighbor {route_server} activate\n "
        f" advertise-all-vni\n{segments} exit-address-family\n"
    )


def server_config(router_id: str, peers: Mapping[str, int]) -> str:
    """bgpd of the route server; ``peers`` are the nodes' addresses and systems. Next hops and paths
    pass unchanged (RFC 7947).
    """
    sessions = "".join(
        f" neighbor {peer} remote-as {system}\n neighbor {peer} timers connect 1\n"
        for peer, system in peers.items()
    )
    clients = "".join(
        f"  neighbor {peer} activate\n  neighbor {peer} route-server-client\n" for peer in peers
    )
    return (
        f"log stdout\nrouter bgp {ROUTE_SERVER_AS}\n bgp router-id {router_id}\n no bgp default"
        f" ipv4-unicast\n no bgp ebgp-requires-policy\n{sessions} address-family l2vpn"
        f" evpn\n{clients} exit-address-family\n"
    )


class Router:
    """zebra and bgpd in one namespace."""

    def __init__(self, daemons: Daemons, name: str, ns: Namespace, config: str) -> None:
        """Starts both. Raises ClusterError when one does not come up."""
        self.name = name
        self.ns = ns
        self.folder = daemons.file(name)
        self.folder.mkdir()
        (self.folder / "group").write_text(_GROUPS)
        zserv = self.folder / "zserv.api"
        self._start(daemons, "zebra", ["-z", str(zserv)], "log stdout\n")
        daemons.wait(f"zebra on {name}", zserv.exists, _START)
        self._start(daemons, "bgpd", ["-z", str(zserv)], config)
        daemons.wait(f"bgpd on {name}", (self.folder / "bgpd.vty").exists, _START)

    def _start(self, daemons: Daemons, program: str, more: Sequence[str], config: str) -> None:
        path: Path = self.folder / f"{program}.conf"
        path.write_text(config)
        argv = [
            f"{FOLDER}/{program}",
            "-u",
            "root",
            "-g",
            "root",
            "-A",
            "127.0.0.1",
            "-P",
            "0",
            "--vty_socket",
            str(self.folder),
        ]
        argv += ["-i", str(self.folder / f"{program}.pid"), "-f", str(path), *more]
        alone = [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            _PRIVATE,
            str(self.folder / "group"),
        ]
        daemons.start(f"{program}-{self.name}", self.ns, [*alone, *argv])

    def ask(self, command: str) -> Any:
        """What bgpd answers to ``show ... json``; {} when it has nothing to say. Raises
        ClusterError.
        """
        said = self.ns.run(
            ["vtysh", "--vty_socket", str(self.folder), "-d", "bgpd", "-c", command], timeout=_ASK
        ).stdout
        try:
            return json.loads(said)
        except ValueError:
            return {}

    def established(self) -> dict[str, bool]:
        """Peer to whether the session with it is up."""
        return {
            peer: facts.get("state") == "Established"
            for peer, facts in self.ask("show bgp l2vpn evpn summary json").get("peers", {}).items()
        }

    def routes(self, kind: str) -> list[dict[str, Any]]:
        """EVPN routes of a kind (macip, multicast): ``rd``, ``route`` as FRR writes it,
        ``next_hop`` (the tunnel's end), ``valid``.
        """
        found = []
        for rd, prefixes in self.ask(f"show bgp l2vpn evpn route type {kind} json").items():
            for route, facts in prefixes.items() if isinstance(prefixes, dict) else ():
                for path in _paths(facts):
                    hops = [hop.get("ip", "") for hop in path.get("nexthops", ())]
                    found.append(
                        {
                            "rd": rd,
                            "route": route,
                            "next_hop": ", ".join(hops),
                            "valid": bool(path.get("valid")),
                        }
                    )
        return found


def _paths(facts: Any) -> list[dict[str, Any]]:
    if not isinstance(facts, dict):
        return []
    return [
        path
        for item in facts.get("paths", ())
        for path in (item if isinstance(item, list) else [item])
    ]
