"""What a node had before a CNI came, kept on the node's own disk from before anything is installed
until it is removed; and the program that works on the node's files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cnibench.clusters.kubernetes.api.objects import HOST
from cnibench.clusters.kubernetes.removal import commands, node_snapshot
from cnibench.clusters.kubernetes.removal.commands import Items
from cnibench.clusters.kubernetes.removal.node_snapshot import QUICK, SCRIPT
from cnibench.errors import ClusterError
from cnibench.model.installation import Installation

if TYPE_CHECKING:
    from cnibench.clusters.kubernetes.nodes.places import KubernetesNode

_BEFORE = "/var/lib/cnibench/before-cni.json"  # on the node
LIBCNI = (
    "/var/lib/cni/networks",
    "/var/lib/cni/results",
    "/sys/fs/bpf/tc/globals",
    "/sys/fs/bpf/tc",
)  # go when nothing is in them
_FILES = Path(__file__).with_name("_node_files.py")


class Setting(NamedTuple):
    """The value of a sysctl before the CNI came, and when it was ready; None where its installation
    did not end.
    """

    before: str
    installed: str | None


class UntouchedError(ClusterError):
    """Nothing is removed from this node."""


def remember(node: KubernetesNode, about: Installation) -> None:
    """Writes down on the node what it has of all that could be removed from it. Raises
    ClusterError.
    """
    shown = node.run(["sh", "-c", SCRIPT], timeout=QUICK).stdout
    items = {kind: sorted(found) for kind, found in node_snapshot.parse(shown).items()}
    paths = files(
        node, do="list", kept=[], patterns=[*about.leaves.files, *backups(about), *LIBCNI]
    )
    links = json.loads("".join(commands.section(shown, "links")) or "[]")
    items |= {
        "path": paths["found"],
        "up": [link["ifname"] for link in links if "UP" in link.get("flags", ())],
        "address": [address for link in links for address in node_snapshot.addresses(link)],
        "mount": commands.section(shown, "mounts"),
    }
    text = json.dumps({"items": items, "sysctls": node_snapshot.sysctls(node)})
    files(node, do="save", path=_BEFORE, text=text)


def remember_settings(node: KubernetesNode) -> None:
    """Writes down the sysctls once the CNI is ready: what somebody changes later is not the CNI's.
    Raises UntouchedError, ClusterError.
    """
    found = _remembered(node)
    text = json.dumps({**found, "installed": node_snapshot.sysctls(node)})
    files(node, do="save", path=_BEFORE, text=text)


def backups(about: Installation) -> list[str]:
    """Patterns of the configuration files that the CNI put aside."""
    return [f"/etc/cni/net.d/*{about.leaves.backups}"] if about.leaves.backups else []


def forget(node: KubernetesNode) -> None:
    """The end of ``remember``. Raises ClusterError."""
    files(
        node,
        do="remove",
        patterns=[_BEFORE],
        kept=[],
        backups="",
        empty=[str(Path(_BEFORE).parent)],
    )


def before(node: KubernetesNode) -> tuple[Items, Mapping[str, Setting]]:
    """(what the node had, its sysctls) as ``remember`` wrote them. Raises UntouchedError when that
    is lost, ClusterError.
    """
    found = _remembered(node)
    installed = found.get("installed", {})
    return {kind: frozenset(items) for kind, items in found["items"].items()}, {
        name: Setting(value, installed.get(name)) for name, value in found["sysctls"].items()
    }


def _remembered(node: KubernetesNode) -> dict[str, dict[str, Any]]:
    text = files(node, do="load", path=_BEFORE)["text"]
    try:
        found: dict[str, dict[str, Any]] = json.loads(text)
        return {"items": found["items"], "sysctls": found["sysctls"], **found}
    except (TypeError, ValueError, KeyError):
        raise UntouchedError(
            f"node {node.facts.name}: its state before the CNI was installed is no longer known"
            f" ({_BEFORE}): nothing is removed by its name alone",
            "reboot the node, and remove the CNI's files from it",
        ) from None


def files(node: KubernetesNode, **asked: Any) -> dict[str, Any]:
    """The answer of the program that works on the node's files. Raises ClusterError."""
    argv = ["python3", "-I", "-S", "-c", _FILES.read_text(encoding="utf-8")]
    done = node.run(argv, timeout=QUICK, input=json.dumps({"root": HOST, **asked}), check=False)
    if done.returncode:
        raise ClusterError(
            f"node {node.facts.name}: its files:"
            f" {(done.stderr.strip().splitlines() or ['no output'])[-1]}"
        )
    return dict(json.loads(done.stdout))
