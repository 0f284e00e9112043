"""Looks at the measured nodes through their agents, for ``cnibench doctor``: settings, NICs, the
way between them, clocks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from cnibench.clusters.kubernetes.nodes import agents, probe, similarity
from cnibench.clusters.kubernetes.nodes.places import ADMIT, UNSEEN, KubernetesNode, on_each
from cnibench.errors import CnibenchError
from cnibench.offload import tunnel_support
from cnibench.testbed.capabilities.node_inspection import Nodes, Remark

_SMALL = 100  # bytes of a packet that passes anywhere
_LIMIT = 30.0  # s

# Prints one node's facts; what it cannot see is ''. adjtimex(2) with no mode set only reads: 5
# (TIME_ERROR) means not synchronised.
_LOOK = r"""
import ctypes, glob, json, os, re, subprocess, sys
device = sys.argv[1]
net, cpu = "/sys/class/net/" + device, "/sys/devices/system/cpu"
def text(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""
def said(*argv):
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
def all_of(pattern):
    return ",".join(sorted({text(path) for path in glob.glob(pattern)} - {""}))
def interrupts():
    numbers = glob.glob(net + "/device/msi_irqs/*") or [
        line.split(":")[0].strip() for line in text("/proc/interrupts").splitlines() if re.search(r"\b%s\b" % re.escape(device), line)]
    found = [text("/proc/irq/%s/%s" % (os.path.basename(one), "smp_affinity_list")) for one in numbers]
    return [one for one in found if one]
def synchronised():
    try:
        state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(1024))
    except (OSError, AttributeError):
        return ""
    return "" if state < 0 else "no" if state == 5 else "yes"
def turbo():
    for path, on in (("/intel_pstate/no_turbo", "0"), ("/cpufreq/boost", "1")):
        if value := text(cpu + path):
            return "on" if value == on else "off"
    return ""
cpuinfo = text("/proc/cpuinfo")
model = re.search(r"^(?:model name|Model|cpu model)\s*:\s*(.+)$", cpuinfo, re.M)
rings = re.findall(r"^(RX|TX):\s+(\d+)", said("ethtool", "-g", device).partition("Current")[2], re.M)
comms = {text(path) for path in glob.glob("/proc/[0-9]*/comm")}
speed = text(net + "/speed")
print(json.dumps({
    "kernel": os.uname().release, "architecture": os.uname().machine, "cpu_model": model[1].strip() if model else "",
    "cpus": os.cpu_count(), "governor": all_of(cpu + "/cpu[0-9]*/cpufreq/scaling_governor"),
    "smt": {"1": "on", "0": "off"}.get(text(cpu + "/smt/active"), ""), "turbo": turbo(),
    "virtual": "yes" if re.search(r"^flags\s*:.*\bhypervisor\b", cpuinfo, re.M) else "no",
    "mtu": text(net + "/mtu"), "speed": "" if speed.startswith("-") else speed, "duplex": text(net + "/duplex"),
    "rings": " ".join("%s %s" % one for one in rings), "interrupts": interrupts(), "rps": all_of(net + "/queues/rx-*/rps_cpus"),
    "irqbalance": "runs" if "irqbalance" in comms else "does not run", "synchronised": synchronised(),
}))
"""  # noqa: E501


def compared(nodes: Sequence[KubernetesNode]) -> Nodes:
    """Two nodes, compared. Raises ClusterError when their agents cannot be asked."""
    facts = dict(zip((node.name for node in nodes), on_each(nodes, _look), strict=True))
    return Nodes(
        facts, [*similarity.remarks(facts), *_nics(nodes), *_way(nodes, facts), *_refused(nodes)]
    )


def _look(node: KubernetesNode) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        node.run(["python3", "-I", "-c", _LOOK, node.device], timeout=_LIMIT).stdout
    )
    return found | {"interrupts": similarity.interrupts(found["interrupts"]), "device": node.device}


def _nics(nodes: Sequence[KubernetesNode]) -> Iterator[Remark]:
    found, _ = agents.nics(nodes, every=False)
    commands = (
        "cnibench offload --cluster existing shows them; ethtool -K, -L and -i, the same on both"
    )
    yield from (
        Remark("differs", f"NIC: {words}", commands) for words in tunnel_support.unlike(found)
    )
    for node in nodes:
        if not any(nic.node == node.name and nic.underlay for nic in found):
            yield Remark(
                "unseen",
                f"node {node.name}: the NIC that has its address"
                f" ({', '.join(node.addresses.values())})",
            )


def _way(nodes: Sequence[KubernetesNode], facts: dict[str, dict[str, Any]]) -> Iterator[Remark]:
    """A small and a full-size packet both ways, and the clocks; the address families that both
    nodes have.
    """
    first, second = nodes
    families = sorted(first.addresses.keys() & second.addresses.keys())
    if not families or not all(facts[node.name]["mtu"] for node in nodes):
        yield Remark(
            "unseen",
            f"the path between {first.name} and {second.name}: the nodes report no address family"
            " that both have, or no MTU",
        )
        return
    size = max(int(facts[node.name]["mtu"]) for node in nodes)
    try:
        with probe.serving(first, second):
            found = {}
            for one, other in ((first, second), (second, first)):
                target = other.addresses[families[0]]
                small = probe.datagram(one, target, _SMALL)
                found[one.name, other.name] = (
                    small,
                    "" if small else probe.datagram(one, target, size),
                )
            offset = probe.clock(first, second.addresses[families[0]])
    except CnibenchError as error:
        yield Remark("unseen", f"the path between {first.name} and {second.name}: {error.message}")
        return
    if not isinstance(offset, str):
        facts[second.name]["clock_ahead"], facts[second.name]["clock_doubt"] = offset
    yield from similarity.passing(size, found)
    yield from similarity.clocks(first.name, second.name, offset)


def _refused(nodes: Sequence[KubernetesNode]) -> Iterator[Remark]:
    if not all(node.host for node in nodes):
        words = f"cycles per packet, rules, programs and other devices of the nodes, for {UNSEEN}"
        yield Remark("unseen", words, ADMIT)
