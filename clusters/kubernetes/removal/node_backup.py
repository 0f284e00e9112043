"""What is removed from nodes: listed, and its small files saved, before anything goes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from cnibench.clusters.kubernetes.removal.node_cleaning import Found
from cnibench.model.installation import Installation
from cnibench.system.text import printable

_NAMED = 5  # files that a message names


def outlook(about: Installation, recorded: bool) -> str:
    """What will be looked for, while no agent of ours is on a node that could look."""
    leaves = about.leaves
    kinds: Mapping[str, Sequence[object]] = {
        "devices": leaves.devices,
        "iptables chains": leaves.chains,
        "rules with": leaves.rules,
        "ipsets": leaves.ipsets,
        "nft tables": leaves.nft_tables,
        "programs at tc": leaves.programs,
        "routing tables": leaves.route_tables,
        "files": leaves.files,
        "IPsec": ["all states and policies"] if leaves.xfrm and recorded else [],
    }
    named = [f"{kind} {', '.join(map(str, names))}" for kind, names in kinds.items() if names]
    which = (
        "what was not there before the installation"
        if recorded
        else "whoever made it, since what was there before the CNI is unknown"
    )
    return (
        f"removed from each node, {which}: {'; '.join([*named, 'routes to its Pods'])}; what is"
        " found is listed, and small files are saved, before it is removed"
    )


def save(found: Mapping[str, Found], folder: Path, name: str) -> list[str]:
    """Writes a list of all that is ``found`` on each node and an archive of its files beside the
    manifests ``name``; what there is to say of each node. Raises OSError.
    """
    words, every = list[str](), list[str]()
    for node, one in found.items():
        every += [f"node {node}:", *(f"  {printable(line, newlines=False)}" for line in one.lines)]
        for path in one.paths:
            why = f" (not saved: {one.unsaved[path]})" if path in one.unsaved else ""
            every.append(f"  {printable(path + why, newlines=False)}")
        said = f"removed from node {node}: {', '.join(one.summary()) or 'nothing'}"
        if len(one.unsaved) < len(one.paths):
            file = folder / f"{name}-node-{re.sub(r'[^a-zA-Z0-9.-]', '_', node)}.tar"
            _write(file, one.archive)
            said += f"; its files are in {file}: tar -xpf {file.name} -C / there brings them back"
        if one.unsaved:
            some = [f"{path} ({why})" for path, why in one.unsaved.items()][:_NAMED]
            more = f" and {len(one.unsaved) - _NAMED} more" * (len(one.unsaved) > _NAMED)
            said += f"; not saved: {', '.join(some)}{more}"
        words.append(printable(said, newlines=False))
    _write(folder / f"{name}-nodes.txt", "".join(f"{line}\n" for line in every).encode())
    return words


def save_commands(commands: Sequence[str], folder: Path, name: str) -> list[str]:
    """Writes the commands that put back what goes from the Node objects to a script beside the
    manifests ``name``; what there is to say. Raises OSError.
    """
    if not commands:
        return []
    path = folder / f"{name}-node-objects.sh"
    _write(path, "".join(f"{line}\n" for line in commands).encode())
    return [f"annotations, labels and taints go from the Node objects: sh {path} puts them back"]


def _write(path: Path, data: bytes) -> None:
    descriptor = os.open(
        path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
    )
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, 0o600)
        file.write(data)
        file.flush()
        os.fsync(descriptor)
