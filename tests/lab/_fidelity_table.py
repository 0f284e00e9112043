"""The table of docs/fidelity.md about offloads, lengths of frames and connection tracking, made
from deployments of the lab.

    python tests/lab/_fidelity_table.py [--write docs/fidelity.md] PROFILE...

prints a row for each profile, or puts the rows in place of those of the same profiles in the file.
Profiles that this kernel cannot run get theirs in a VM: see tests/e2e/test_vm_datapaths.py. Needs
root.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from cnibench.clusters.lab.attestation import capture, probe
from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.namespaces import features, tree
from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.clusters.lab.namespaces.places import LabPod
from cnibench.listing.devices import devices
from cnibench.listing.settings import sysctls
from cnibench.model.cell import Placement
from cnibench.model.profile import builtin
from cnibench.testbed.cluster import Options

HEADS = (
    "profile",
    "off in Pods",
    "off on nodes",
    "longest frame within a node",
    "between nodes",
    "connections tracked",
    "conntrack settings",
    "rp_filter",
)
BEGIN, END = "<!-- begin: models -->", "<!-- end: models -->"
_SIZE = 256 * 1024  # bytes of a probe
_TRIES = 3
_LIMIT = 10.0  # s
_BASELINE = "veth-baseline"
_FEATURES = ("tx-checksum-ip-generic", "tx-tcp-segmentation", "tx-generic-segmentation", "rx-gro")
_KINDS = ("bridge", "vxlan", "geneve", "tun", "openvswitch", "wireguard", "ipip")
_SETTINGS = re.compile(r"netfilter/(nf_conntrack_\w+) (.*)")
_VARIES = frozenset(("nf_conntrack_max", "nf_conntrack_expect_max"))  # of the machine's memory


def row(deployment: LabDeployment, plain: LabDeployment) -> tuple[str, ...]:
    """The cells of one deployment, in the order of ``HEADS``; ``plain`` is one of veth-baseline,
    whose features and settings are the kernel's own. Raises ClusterError.
    """
    client, _ = deployment.pair("intra")
    node, behind = deployment.a, bool(client.interface)
    usual = {name for name, on in features.read(plain.pair("intra")[0].ns, "eth0").items() if on}
    wanted = [name for name in _FEATURES if name in usual]
    ours, ends = _devices(deployment)
    return (
        deployment.label,
        _off(client.ns, [client.interface], wanted) if behind else "-",
        _off(node.ns, [*ours, *ends], wanted),
        _longest(deployment, "intra") if behind else "-",
        _longest(deployment, "inter"),
        _tracked(deployment),
        _settings(node.ns, plain.a.ns),
        ", ".join(_filter(node.ns, name) for name in [node.wire, *ends]),
    )


def _devices(deployment: LabDeployment) -> tuple[list[str], list[str]]:
    """A node's bridges and tunnels, and the client's end there: none if it is elsewhere."""
    client, _ = deployment.pair("intra")
    with deployment.a.ns.inside():
        present = {device.name: device.kind for device in devices()}
    ours = [name for name, kind in present.items() if kind in _KINDS]
    return sorted(ours), [client.host_end] * (client.host_end in present)


def _off(ns: Namespace, names: Sequence[str], wanted: Sequence[str]) -> str:
    found: dict[str, list[str]] = {}
    for name in names:
        now = features.read(ns, name)
        if off := [feature for feature in wanted if not now.get(feature, False)]:
            found.setdefault(", ".join(off), []).append(name)
    return "; ".join(f"{', '.join(of)}: {off}" for off, of in found.items()) or "none"


def _longest(deployment: LabDeployment, placement: Placement) -> str:
    """Of the frames that leave the client's Pod, or its node over the wire."""
    client, server = deployment.pair(placement)
    within = placement == "intra"
    pod = capture.Place(client.ns, client.interface, client.name)
    place = pod if within else deployment.a
    most = 0
    for _ in range(_TRIES):  # a stream's first packets are short
        with capture.watching(place) as seen:
            if failure := _stream(client, server, _SIZE):
                return failure
        most = max([most, *(packet.length for packet in seen.packets)])
    limit = (deployment.mtu if within else deployment.wire_mtu) + 14  # Ethernet header
    return "super-packets" if most > limit else f"{most} B"


def _stream(client: LabPod, server: LabPod, size: int) -> str:
    (family,) = server.addresses
    return probe.stream(client.ns, server.ns, server.addresses[family], family, size, _LIMIT)


def _tracked(deployment: LabDeployment) -> str:
    """Where the kernel has entries of a connection that crossed both nodes."""
    client, server = deployment.pair("inter")
    deployment.reset_state()
    _stream(client, server, 1000)
    places = {"nodes": deployment.b.ns, "Pods": server.ns}
    if not client.interface:
        del places["Pods"]
    places |= {name.split()[0]: ns for name, ns in deployment.datapath.namespaces().items()}
    key = "/proc/sys/net/netfilter/nf_conntrack_count"
    return ", ".join(name for name, ns in places.items() if int(ns.read(key))) or "nowhere"


def _settings(ns: Namespace, plain: Namespace) -> str:
    """What of a node's connection tracking is not the kernel's own."""
    with plain.inside():
        usual = set(sysctls())
    with ns.inside():
        changed = [_SETTINGS.match(text) for text in sysctls() if text not in usual]
    return (
        ", ".join(f"{one[1]}={one[2]}" for one in changed if one and one[1] not in _VARIES)
        or "none"
    )


def _filter(ns: Namespace, device: str) -> str:
    return ns.read(f"/proc/sys/net/ipv4/conf/{device}/rp_filter").strip()


def rows(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Of profiles that this kernel can run, within a tree of namespaces. Raises ClusterError."""
    plain = LabDeployment(_BASELINE, builtin()[_BASELINE], Options(), 1)
    try:
        found = []
        for name in names:
            profile = builtin()[name]
            deployment = LabDeployment(name, profile, Options(ip=profile.features.ip[:1]), 2)
            try:
                found.append(row(deployment, plain))
            finally:
                deployment.remove()
        return found
    finally:
        plain.remove()


def line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def table(page: str) -> dict[str, str]:
    """Profile to its row, as the page has it."""
    _, _, rest = page.partition(BEGIN)
    body, _, _ = rest.partition(END)
    return {
        text.split("|")[1].strip(): text for text in body.strip().splitlines()[2:] if "|" in text
    }


def with_rows(page: str, lines: Sequence[str]) -> str:
    """The page with these rows in place of those of the same profiles."""
    kept = table(page) | {text.split("|")[1].strip(): text for text in lines}
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    body = [line(HEADS), line(["---"] * len(HEADS)), *(kept[name] for name in sorted(kept))]
    return f"{head}{BEGIN}\n" + "\n".join(body) + f"\n{END}{tail}"


def main(words: Sequence[str]) -> int:
    target = Path(words[1]) if words[:1] == ["--write"] else None
    lines = [line(cells) for cells in rows(words[2:] if target else words)]
    if target is None:
        print("\n".join(lines), flush=True)
    else:
        target.write_text(with_rows(target.read_text(encoding="utf-8"), lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(tree.carry(lambda: main(sys.argv[1:])))
