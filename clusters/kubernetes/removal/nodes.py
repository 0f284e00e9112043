"""Removing from a node what a CNI left there: what its profile names, unless it was there before
the CNI came.

What was there before is kept on the node's own disk from before anything is installed. What is left
in the end, ``remains`` finds.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cnibench.clusters.kubernetes.api.objects import HOST
from cnibench.clusters.kubernetes.removal import commands, node_snapshot
from cnibench.clusters.kubernetes.removal.commands import Items
from cnibench.clusters.kubernetes.removal.node_snapshot import (
    BACKENDS,
    QUICK,
    SCRIPT,
    leftovers,
    snapshot,
)
from cnibench.errors import ClusterError
from cnibench.model.installation import Installation

if TYPE_CHECKING:
    from cnibench.clusters.kubernetes.nodes.places import KubernetesNode

_PLUGINS = 20.0  # s that a plugin which the runtime has called is given to end
_BEFORE = "/var/lib/cnibench/before-cni.json"  # on the node
_LIBCNI = (
    "/var/lib/cni/networks",
    "/var/lib/cni/results",
    "/sys/fs/bpf/tc/globals",
    "/sys/fs/bpf/tc",
)  # go when nothing is in them
_FILES = Path(__file__).with_name("_node_files.py")

__all__ = ["clean", "forget", "leftovers", "remember", "snapshot"]


def remember(node: KubernetesNode, about: Installation) -> None:
    """Writes down on the node what it has of all that could be removed from it. Raises
    ClusterError.
    """
    shown = node.run(["sh", "-c", SCRIPT], timeout=QUICK).stdout
    items = {kind: sorted(found) for kind, found in node_snapshot.parse(shown).items()}
    paths = _files(node, do="list", patterns=[*about.leaves.files, *_backups(about), *_LIBCNI])
    links = json.loads("".join(commands.section(shown, "links")) or "[]")
    items |= {
        "path": paths["found"],
        "up": [link["ifname"] for link in links if "UP" in link.get("flags", ())],
        "address": [address for link in links for address in node_snapshot.addresses(link)],
        "mount": commands.section(shown, "mounts"),
    }
    text = json.dumps({"items": items, "sysctls": node_snapshot.sysctls(node)})
    _files(node, do="save", path=_BEFORE, text=text)


def _backups(about: Installation) -> list[str]:
    return [f"/etc/cni/net.d/*{about.leaves.backups}"] if about.leaves.backups else []


def forget(node: KubernetesNode) -> None:
    """The end of ``remember``. Raises ClusterError."""
    _files(
        node,
        do="remove",
        patterns=[_BEFORE],
        kept=[],
        backups="",
        empty=[str(Path(_BEFORE).parent)],
    )


def before(node: KubernetesNode) -> tuple[Items, Mapping[str, str]]:
    """(what the node had, its sysctls) as ``remember`` wrote them. Raises ClusterError when that is
    lost.
    """
    text = _files(node, do="load", path=_BEFORE)["text"]
    try:
        found = json.loads(text)
        return {kind: frozenset(items) for kind, items in found["items"].items()}, found["sysctls"]
    except (TypeError, ValueError, KeyError):
        raise ClusterError(
            f"node {node.facts.name}: its state before the CNI was installed is no longer known"
            f" ({_BEFORE}): nothing is removed by its name alone",
            "reboot the node, and remove the CNI's files from it",
        ) from None


def clean(
    node: KubernetesNode,
    about: Installation,
    cidrs: Sequence[str],
    copied: Sequence[str] = (),
    had: Items | None = None,
    sysctls: Mapping[str, str] | None = None,
) -> None:
    """Removes what the profile says that the CNI leaves, routes to Pods of ``cidrs`` and the
    plugins ``copied``; nothing that the node
    ``had``. ``sysctls`` get the values that they had. Raises ClusterError.
    """
    if not node.host:
        raise ClusterError(
            f"node {node.name}: nothing can be removed from it without a privileged agent",
            "allow privileged Pods",
        )
    leaves, had = about.leaves, had or {}
    backends = {
        tool: node.run([f"{tool}-save"], timeout=QUICK, check=False).stdout for tool in BACKENDS
    }
    for tool, saved in backends.items():
        if restore := commands.chain_removal(
            saved, leaves.chains, leaves.rules, tool, had.get("iptables", ())
        ):
            node.run([f"{tool}-restore", "--noflush"], timeout=QUICK, input=restore)
    shown = node.run(["sh", "-c", SCRIPT], timeout=QUICK).stdout
    lines = [
        *commands.base_chain_removal(shown, had.get("empty base chain", ())),
        *commands.device_removal(shown, leaves.devices, had),
        *commands.tc_removal(shown, leaves.programs, had.get("program at tc", ())),
        *commands.route_removal(shown, cidrs, leaves.route_tables, had),
    ]
    tables = [
        line
        for line in commands.section(shown, "nft")
        if commands.named(line.split()[-1], leaves.nft_tables) and line not in had.get("nft", ())
    ]
    lines += [f"nft delete {line}" for line in tables]
    sets = [
        name
        for name in commands.section(shown, "ipsets")
        if commands.named(name, leaves.ipsets) and name not in had.get("ipset", ())
    ]
    lines += [f"ipset destroy {shlex.quote(name)}" for name in sets]
    if leaves.xfrm:
        lines.append(commands.xfrm_removal(had.get("IPsec", ())))
    if leaves.route_tables:
        lines += commands.local_rule(shown, had.get("routing rule", ()))
    kept = had.get("path", ())
    lines += commands.unmounting(shown, leaves.files, kept, had.get("mount", ()))
    now = node_snapshot.sysctls(node) if sysctls else {}
    changed = {
        name: value for name, value in (sysctls or {}).items() if now.get(name, value) != value
    }
    lines += [
        f"echo {shlex.quote(value)} > {shlex.quote('/proc/sys/' + name)}"
        for name, value in changed.items()
    ]
    done = node.run(
        [
            "sh",
            "-c",
            "\n".join(
                ["failed=0", *(f"{{ {line}; }} || failed=1" for line in lines), "exit $failed"]
            ),
        ],
        timeout=120,
        check=False,
    )
    patterns = [
        *leaves.files,
        *(f"/opt/cni/bin/{name}" for name in copied if re.fullmatch(r"[\w-]+", name)),
    ]
    failed = _files(
        node,
        do="remove",
        patterns=patterns,
        kept=sorted(kept),
        backups=leaves.backups,
        empty=_LIBCNI,
    )["failed"]
    if done.returncode:
        failed += done.stderr.strip().splitlines()[-5:]
    if failed:
        raise ClusterError(f"something could not be removed: {' | '.join(failed[:5])}")


def _files(node: KubernetesNode, **asked: Any) -> dict[str, Any]:
    """The answer of the program that works on the node's files. Raises ClusterError."""
    argv = ["python3", "-I", "-S", "-c", _FILES.read_text(encoding="utf-8")]
    done = node.run(argv, timeout=QUICK, input=json.dumps({"root": HOST, **asked}), check=False)
    if done.returncode:
        raise ClusterError(
            f"node {node.facts.name}: its files:"
            f" {(done.stderr.strip().splitlines() or ['no word'])[-1]}"
        )
    return dict(json.loads(done.stdout))


def end_plugins(node: KubernetesNode) -> None:
    """Waits until no deleted CNI plugin runs and kills what still does in the end: it would write
    its files again. Raises ClusterError.
    """
    script = f"""
    running() {{ ls -l /proc/[0-9]*/exe 2>/dev/null | sed -n 's,.* /proc/\\([0-9]*\\)/exe -> /opt/cni/bin/.* (deleted)$,\\1,p'; }}
    for again in $(seq {int(_PLUGINS / 0.2)}); do test -n "$(running)" || exit 0; sleep 0.2; done
    kill -9 $(running) 2>/dev/null; true"""  # noqa: E501
    node.run(["sh", "-c", script], timeout=_PLUGINS + QUICK)
