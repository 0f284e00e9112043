"""Removing from a node what a CNI left there: what its profile names, unless it was there before
the CNI came.
"""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from cnibench.clusters.kubernetes.removal import commands, node_snapshot, nodes
from cnibench.clusters.kubernetes.removal.commands import Command, Items
from cnibench.clusters.kubernetes.removal.node_snapshot import BACKENDS, QUICK, SCRIPT
from cnibench.errors import ClusterError
from cnibench.model.installation import Installation

if TYPE_CHECKING:
    from cnibench.clusters.kubernetes.nodes.places import KubernetesNode

_PLUGINS = 20.0  # s that a plugin which the runtime has called is given to end
_CONFIGURATION = "/etc/cni/net.d/"  # is saved first
_LARGEST = 1 << 20  # bytes of a file that is saved
_MOST = 16 << 20  # bytes of all files of a node that are saved


@dataclass(frozen=True)
class Found:
    """What would be removed from a node. ``archive`` is a tar archive of the files among ``paths``,
    except those that are ``unsaved``, each with the reason.
    """

    lines: Sequence[str]
    paths: Sequence[str] = ()
    archive: bytes = b""
    unsaved: Mapping[str, str] = field(default_factory=dict)

    def summary(self) -> list[str]:
        """Of a folder that goes as a whole, how many paths are in it."""
        tops: dict[str, int] = {}
        for path in self.paths:  # what holds others comes before them
            above = (str(one) for one in PurePosixPath(path).parents)
            top = next((one for one in above if one in tops), path)
            tops[top] = tops.get(top, -1) + 1
        return [*self.lines, *(f"{top} (with {n} in it)" if n else top for top, n in tops.items())]


@dataclass(frozen=True)
class Cleaning:
    """Removes what the profile says that the CNI leaves, routes to Pods of ``cidrs`` and the
    plugins ``copied``; nothing that the node ``had``. ``sysctls`` get the values that they had,
    unless they were changed after the CNI was ready.
    """

    node: KubernetesNode
    about: Installation
    cidrs: Sequence[str] = ()
    copied: Sequence[str] = ()
    had: Items = field(default_factory=dict)
    sysctls: Mapping[str, nodes.Setting] = field(default_factory=dict)

    def look(self) -> Found:
        """Changes nothing. Raises ClusterError."""
        scripts = self._chains()
        lines = [one for tool, text in scripts.items() for one in commands.chains(text, tool)]
        lines += [one.what for one in (*self._commands(), *self._last()) if one.what]
        kept = sorted(self.had.get("path", ()))
        if backups := nodes.backups(self.about):
            ending = self.about.leaves.backups
            aside = nodes.files(self.node, do="list", patterns=backups, kept=kept)["found"]
            lines += [f"{one}, which is named {one.removesuffix(ending)} again" for one in aside]
        patterns = sorted(self._patterns(), key=lambda one: not one.startswith(_CONFIGURATION))
        answer = nodes.files(
            self.node, do="archive", patterns=patterns, kept=kept, largest=_LARGEST, most=_MOST
        )
        return Found(
            list(dict.fromkeys(lines)),
            answer["found"],
            base64.b64decode(answer["tar"]),
            answer["unsaved"],
        )

    def clean(self) -> None:
        """Raises ClusterError."""
        for tool, script in self._chains().items():
            self.node.run([f"{tool}-restore", "--noflush"], timeout=QUICK, input=script)
        lines = [f"{{ {one.line}; }} || failed=1" for one in self._commands()]
        done = self.node.run(
            ["sh", "-c", "\n".join(["failed=0", *lines, "exit $failed"])], timeout=120, check=False
        )
        failed = nodes.files(
            self.node,
            do="remove",
            patterns=self._patterns(),
            kept=sorted(self.had.get("path", ())),
            backups=self.about.leaves.backups,
            empty=nodes.LIBCNI,
        )["failed"]
        if done.returncode:
            failed += done.stderr.strip().splitlines()[-5:]
        for one in self._last():
            done = self.node.run(["sh", "-c", one.line], timeout=QUICK, check=False)
            failed += done.stderr.strip().splitlines()[-5:] if done.returncode else []
        if failed:
            raise ClusterError(f"something could not be removed: {' | '.join(failed[:5])}")

    def _chains(self) -> dict[str, str]:
        """Input of each back end's ``restore``."""
        leaves, had = self.about.leaves, self.had.get("iptables", ())
        scripts = {}
        for tool in BACKENDS:
            saved = self.node.run([f"{tool}-save"], timeout=QUICK, check=False).stdout
            scripts[tool] = commands.chain_removal(saved, leaves.chains, leaves.rules, tool, had)
        return {tool: script for tool, script in scripts.items() if script}

    def _commands(self) -> list[Command]:
        leaves, had = self.about.leaves, self.had
        shown = self.node.run(["sh", "-c", SCRIPT], timeout=QUICK).stdout
        found = [
            *commands.base_chain_removal(shown, had.get("empty base chain", ())),
            *commands.device_removal(shown, leaves.devices, had),
            *commands.tc_removal(shown, leaves.programs, had.get("program at tc", ())),
            *commands.route_removal(shown, self.cidrs, leaves.route_tables, had),
        ]
        tables = [
            line
            for line in commands.section(shown, "nft")
            if commands.named(line.split()[-1], leaves.nft_tables)
            and line not in had.get("nft", ())
        ]
        found += [Command(f"nft delete {line}", f"nft {line}") for line in tables]
        sets = [
            name
            for name in commands.section(shown, "ipsets")
            if commands.named(name, leaves.ipsets) and name not in had.get("ipset", ())
        ]
        found += [Command(f"ipset destroy {shlex.quote(name)}", f"ipset {name}") for name in sets]
        if leaves.xfrm:
            found.append(commands.xfrm_removal(shown, had.get("IPsec", ())))
        if leaves.route_tables:
            found += commands.local_rule(shown, had.get("routing rule", ()))
        found += commands.unmounting(shown, leaves.files, had.get("path", ()), had.get("mount", ()))
        return found + self._settings()

    def _last(self) -> list[Command]:
        """What can go when no files of the CNI are left."""
        if "mount" not in self.had:  # somebody else installed it: who mounted what is unknown
            return []
        shown = self.node.run(["sh", "-c", SCRIPT], timeout=QUICK).stdout
        return list(commands.unmounting_bpf(shown, self.about.leaves.files, self.had["mount"]))

    def _settings(self) -> list[Command]:
        """Those that were changed after the CNI was ready are only named."""
        now = node_snapshot.sysctls(self.node) if self.sysctls else {}
        found = []
        for name, (before, installed) in self.sysctls.items():
            value, dotted = now.get(name, before), name.replace("/", ".")
            if value == before:
                continue
            if installed in (None, value):
                line = f"echo {shlex.quote(before)} > {shlex.quote(f'{self.node.settings}/{name}')}"
                found.append(Command(line, f"sysctl {dotted}, which gets {before} again"))
            else:
                words = (
                    f"sysctl {dotted}, which keeps {value}, set after the CNI was ready (before the"
                    f" CNI: {before})"
                )
                found.append(Command("true", words))
        return found

    def _patterns(self) -> list[str]:
        names = [name for name in self.copied if re.fullmatch(r"[\w-]+", name)]
        plugins = (f"/opt/cni/bin/{name}" for name in names)
        return [*self.about.leaves.files, *plugins, *self._results()]

    def _results(self) -> list[str]:
        """Files about Pods that were never taken off the CNI's network and are gone."""
        kept = sorted(self.had.get("path", ()))
        asked = nodes.files(self.node, do="results", networks=self._networks, kept=kept)
        return [one for one in asked["found"] if not set(one) & set("*?[")]

    @cached_property
    def _networks(self) -> list[str]:
        """Of the CNI's configuration, which goes before the files about its Pods."""
        return list(
            nodes.files(
                self.node,
                do="networks",
                patterns=self.about.leaves.files,
                kept=sorted(self.had.get("path", ())),
            )["found"]
        )


def end_plugins(node: KubernetesNode) -> None:
    """Waits until no deleted CNI plugin runs and kills what still does in the end: it would write
    its files again. Raises ClusterError.
    """
    script = f"""
    running() {{ ls -l /proc/[0-9]*/exe 2>/dev/null | sed -n 's,.* /proc/\\([0-9]*\\)/exe -> /opt/cni/bin/.* (deleted)$,\\1,p'; }}
    for again in $(seq {int(_PLUGINS / 0.2)}); do test -n "$(running)" || exit 0; sleep 0.2; done
    kill -9 $(running) 2>/dev/null; true"""  # noqa: E501
    node.run(["sh", "-c", script], timeout=_PLUGINS + QUICK)
