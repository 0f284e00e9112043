"""What is looked at where a profile is deployed, in the lab or on kind, so that the two can be
compared (docs/fidelity.md).

As a program it looks at the lab's: ``python _fidelity.py FOLDER REPEATS PROFILE... [--costs]``
prints a JSON document.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cnibench.errors import LimitError, MeasureError
from cnibench.model.cell import Cell, Placement
from cnibench.model.profile import builtin
from cnibench.registry import provider
from cnibench.run.checks.cpus import choose_cpus, cores
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.run.windows.sample import measure
from cnibench.testbed.capabilities.node_devices import NodeDevices
from cnibench.testbed.cluster import Options
from cnibench.testbed.deployment import Deployment
from cnibench.testbed.place import Node, Place

PLACEMENTS: tuple[Placement, ...] = ("intra", "inter")
PACKETS = ("first", "established")
# The components that the profiles' datapaths are made of. The others do the same in each: TCP,
# sockets, scheduling, whose cycles the machine's load decides.
DATAPATH = {"bridge", "netfilter", "conntrack", "fib", "ip-forward", "vxlan", "ebpf"}
WIRE = {"intra": set[str](), "inter": {"bridge"}}  # kind's nodes are joined by a bridge
COSTS = "--costs"  # what the order of the profiles is judged by, alone
_ETHERNET = 14  # bytes of a frame's header
_LIMIT = 20.0  # s: of a command that only looks
_TRIES = 3
_SECONDS = 1.5  # of a window, at first
_PROGRAM = re.compile(r"\bcil_[a-z_]+")
_SETTINGS = (
    "net/ipv4/ip_forward",
    "net/bridge/bridge-nf-call-iptables",
    "net/netfilter/nf_conntrack_acct",
    "net/netfilter/nf_conntrack_checksum",
    "net/netfilter/nf_conntrack_tcp_be_liberal",
    "net/netfilter/nf_conntrack_tcp_loose",
    "net/netfilter/nf_conntrack_timestamp",
)
_FRAMES = 2000  # of a stream, on each device


class Seen:
    """One deployed profile: everything found so far, as it goes into the JSON document."""

    def __init__(self, deployment: Deployment, raw: Path) -> None:
        self.deployment = deployment
        self.found: dict[str, Any] = {
            "rate": {},
            "datapath": {},
            "samples": {},
            "path": {},
            "layout": {},
        }
        self._raw = raw
        self._number = 0

    def measure(self, stream: bool) -> None:
        """One repeat: TCP_RR with perf, inside a node and between nodes; TCP_STREAM too where asked
        for.

        ``samples`` are those that perf took of each component, and of all together; ``rate`` in
        1/s, ``datapath`` in cycles per packet of the components that set the profiles apart.
        """
        for placement in PLACEMENTS:
            for workload in ("tcp-rr", *(["tcp-stream"] if stream else [])):
                found = self._sample(placement, workload, {}, "cpp")
                (record,) = (line for name, line in found.records if name == "cpp")
                samples = self.found["samples"].setdefault(f"{placement} {workload}", {})
                for component, each in record["components"].items():
                    samples[component] = (
                        samples.get(component, 0.0) + each / record["total"] * record["counted"]
                    )
                samples["all"] = samples.get("all", 0) + record["counted"]
                if workload == "tcp-rr":
                    self._note_rate(placement, found)
                    self.found["datapath"].setdefault(placement, []).append(
                        sum(
                            cycles
                            for component, cycles in record["components"].items()
                            if component in DATAPATH - WIRE[placement]
                        )
                    )

    def _note_rate(self, placement: Placement, found: Measurements) -> None:
        rate = next(one.value for one in found.readings if one.metric == "transaction_rate")
        self.found["rate"].setdefault(placement, []).append(rate)

    def trace(self) -> None:
        """The rules that packets traverse."""
        for placement in PLACEMENTS:
            for packet in PACKETS:
                found = self._sample(placement, "rule-path", {"packet": packet}, "speed")
                (record,) = (line for name, line in found.records if name == "rulepath")
                self.found["path"][f"{placement} {packet}"] = [
                    node["path"] for node in record["nodes"]
                ]

    def kernel_state(self) -> None:
        """What is on the client's node and in its Pod."""
        self.found["layout"] = layout(self.deployment)
        self.found["layout"]["longest frames"] = self._longest()

    def _longest(self) -> dict[str, str]:
        """Of a stream between nodes: what leaves the client's Pod, and what leaves its node; bytes,
        or that they are longer than the device's MTU.
        """
        client, _ = self.deployment.pair("inter")
        node = client.node
        (own,) = _json(client, "ip", "-j", "link", "show", client.interface)
        links = _json(node, "ip", "-j", "link", "show")
        wire = NodeDevices.of(self.deployment).underlay()[node.name]
        places = {
            "from the Pod": next(link for link in links if link["ifindex"] == own["link_index"]),
            "on the wire": next(link for link in links if link["ifname"] == wire),
        }
        self._raw.mkdir(parents=True, exist_ok=True)
        heard = {words: self._raw / f"frames-{link['ifname']}" for words, link in places.items()}
        with contextlib.ExitStack() as listening:
            watching = []
            for words, link in places.items():
                options = f"-Z root -leni {link['ifname']} -s 96 -c {_FRAMES} ip"
                process = node.spawn(["tcpdump", *options.split()], stdout=heard[words])
                watching.append(listening.enter_context(process))
            for _ in range(_TRIES):  # tcpdump may start late on a busy machine
                self._sample("inter", "tcp-stream", {}, "speed")
                if all(process.poll() is not None for process in watching):
                    break
            for process in watching:
                if process.poll() is None:
                    process.interrupt()
                    process.wait(_LIMIT)
        found = {}
        for words, link in places.items():
            longest = max(map(int, re.findall(r"length (\d+): ", heard[words].read_text())))
            within = longest <= link["mtu"] + _ETHERNET
            found[words] = f"{longest} B" if within else "super-packets"
        return found

    def _sample(
        self, placement: Placement, workload: str, params: Mapping[str, Any], window: Any
    ) -> Measurements:
        """A datagram may be lost, rules may change (then nothing is counted), perf may begin late:
        once more then, with a window twice as long.
        """
        driver = provider("workloads", workload)
        label = self.deployment.label
        cell = Cell(
            label=label,
            profile=label,
            placement=placement,
            workload=workload,
            params=driver.params(params),
            window=window,
        )
        for again in range(_TRIES):
            self._number += 1
            raw = self._raw / f"{self._number}"
            raw.mkdir(parents=True)
            self.deployment.reset_state()
            client, server = self.deployment.pairs_for([cell])[0]
            cpus = choose_cpus("shared", sorted(os.sched_getaffinity(0)), cores())
            seconds = _SECONDS * 2**again
            context = SampleContext(
                cell, 0, self.deployment, client, server, seconds, 0.0, raw, *cpus
            )
            try:
                return measure(
                    context, driver, [provider("collectors", "perf")] if window == "cpp" else []
                ).measurements
            except (LimitError, MeasureError):
                if again == _TRIES - 1:
                    raise
        raise AssertionError


def layout(deployment: Deployment) -> dict[str, Any]:
    """What a Pod of the client's node and the way to the other node are made of, without the names
    and numbers that differ anywhere.
    """
    client, server = deployment.pair("inter")
    devices, node = NodeDevices.of(deployment), client.node
    links = _json(node, "ip", "-j", "-d", "link", "show")
    by_index = {link["ifindex"]: link for link in links}
    (own,) = _json(client, "ip", "-j", "-d", "link", "show", client.interface)
    end = by_index[own["link_index"]]
    wire = next(link for link in links if link["ifname"] == devices.underlay()[node.name])
    found: dict[str, Any] = {
        "Pod's device": _device(client, own, wire["mtu"]),
        "node's end of it": _device(node, end, wire["mtu"]),
        "Pod's routes": sorted(_routes(client)),
        "routing rules": [
            f"{rule['priority']}: {rule.get('fwmark', '')} {rule['table']}"
            for rule in _json(node, "ip", "-j", "rule")
        ],
    }
    if master := end.get("master"):
        bridge = next(link for link in links if link["ifname"] == master)
        found["bridge"] = {
            **_device(node, bridge, wire["mtu"]),
            **_chosen(bridge, "forward_delay", "stp_state", "vlan_filtering", "mcast_snooping"),
        }
    if tunnel := devices.tunnel_on(node, 4):
        device = next(link for link in links if link["ifname"] == tunnel)
        wanted = (
            "id",
            "external",
            "port",
            "learning",
            "ttl",
            "tos",
            "ttl_inherit",
            "udp_csum",
            "udp_zero_csum6_tx",
            "gbp",
            "link",
        )
        found["tunnel"] = {**_device(node, device, wire["mtu"]), **_chosen(device, *wanted)}
        found["forwarding entries"] = sorted(
            f"{'dst' if 'dst' in entry else ''} {' '.join(sorted(entry.get('flags', ())))}"
            f" {entry.get('state', '')}"
            for entry in _json(node, "bridge", "-j", "fdb", "show", "dev", tunnel)
        )
    other = server.addresses[4].rpartition(".")[0] + ".0/24"
    found["route to the other node's Pods"] = sorted(_routes(node, other))
    found["settings"] = {key: _setting(node, key) for key in _SETTINGS}
    return found


def _json(place: Place, *argv: str) -> Any:
    return json.loads(place.run(argv, timeout=_LIMIT).stdout or "[]")


def _setting(node: Node, key: str) -> str:
    done = node.run(["cat", f"/proc/sys/{key}"], timeout=_LIMIT, check=False)
    return done.stdout.strip()


def _device(place: Place, link: Mapping[str, Any], wire: int) -> dict[str, Any]:
    """MTU against the wire's, queueing discipline, flags, port flags, what it leaves to its driver,
    programs at tc.
    """
    name = link["ifname"]
    port = link.get("linkinfo", {}).get("info_slave_data", {})
    features = place.run(["ethtool", "-k", name], timeout=_LIMIT).stdout
    programs = {}
    for hook in ("ingress", "egress"):
        done = place.run(["tc", "filter", "show", "dev", name, hook], timeout=_LIMIT, check=False)
        if seen := sorted(set(_PROGRAM.findall(done.stdout))):
            programs[hook] = seen
    return {
        "kind": link.get("linkinfo", {}).get("info_kind", ""),
        "mtu": link["mtu"] - wire,
        "qdisc": link.get("qdisc", ""),
        "flags": sorted(set(link["flags"]) & {"NOARP", "PROMISC", "MULTICAST", "BROADCAST"}),
        "port": {
            key: port[key]
            for key in ("hairpin", "learning", "flood", "mcast_flood", "neigh_suppress")
            if key in port
        },
        "queues": [link.get("num_tx_queues"), link.get("num_rx_queues")],
        "gso": [link.get("gso_max_size"), link.get("gro_max_size")],
        "off": sorted(
            line.partition(":")[0].strip()
            for line in features.splitlines()
            if re.search(r": off$", line)
        ),
        "programs": programs,
    }


def _chosen(link: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    data = link.get("linkinfo", {}).get("info_data", {})
    return {key: data[key] for key in keys if key in data}


def _routes(place: Place, to: str = "") -> Iterator[str]:
    for route in _json(place, "ip", "-j", "route", "show", *([to] if to else [])):
        words = [
            "default" if route["dst"] == "default" else "subnet" if "/" in route["dst"] else "host",
            "via" if "gateway" in route else "",
            re.sub(r"\d+$", "", route["dev"]) if not to else route["dev"],
            " ".join(sorted(route.get("flags", ()))),
            f"mtu {mtu}" if (mtu := (route.get("metrics") or [{}])[0].get("mtu")) else "",
            route.get("scope", ""),
            "src" if "prefsrc" in route else "",
        ]
        yield " ".join(word for word in words if word)


def look(
    deployments: Sequence[Deployment], folder: Path, repeats: int, costs_alone: bool = False
) -> dict[str, Any]:
    """All of it of each standing, the repeats of several interleaved; ``costs_alone``: what the
    order of the profiles is judged by.
    """
    seen = [Seen(deployment, folder / deployment.label) for deployment in deployments]
    for repeat in range(repeats):
        for one in seen:
            one.measure(stream=repeat == 0 and not costs_alone)
    for one in seen if not costs_alone else ():
        one.trace()
        one.kernel_state()
    return {one.deployment.label: one.found for one in seen}


def main(words: Sequence[str]) -> None:
    from cnibench.clusters.lab.deployment import LabDeployment
    from cnibench.clusters.lab.namespaces import features, tree

    folder, repeats, names = Path(words[0]), int(words[1]), [*words[2:]]
    if costs_alone := COSTS in names:
        names.remove(COSTS)
    with tree.entered():
        deployments: list[LabDeployment] = []
        try:
            for number, name in enumerate(names):
                deployments.append(
                    LabDeployment(name, builtin()[name], Options(wire_offload="all"), number + 1)
                )
                for node in deployments[
                    -1
                    # kind's wire is a plain veth pair: it passes super-packets, and puts none
                    # together
                ].nodes():
                    features.write(node.ns, node.wire, {"rx-gro": False})
            json.dump(look(deployments, folder, repeats, costs_alone), sys.stdout)
        finally:
            for deployment in deployments:
                deployment.remove()


if __name__ == "__main__":
    main(sys.argv[1:])
