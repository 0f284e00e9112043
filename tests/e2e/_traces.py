"""What the containers of a kind cluster bring to this machine."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from _kind_runs import engine, output

KINDS = {"processes", "mounts", "cgroups", "interfaces", "rules", "containers", "volumes"}


class Traces:
    """What the containers of this cluster, and no others on the machine, have brought: found by
    their identities.
    """

    def __init__(self, *nodes: str) -> None:
        found = json.loads(output("podman", "inspect", *nodes))
        self.names = set(nodes)
        self.ids = [node["Id"] for node in found]
        self.namespaces = [Path(node["NetworkSettings"]["SandboxKey"]).name for node in found]
        self.volumes = {
            mount["Name"] for node in found for mount in node["Mounts"] if mount["Type"] == "volume"
        }
        addresses = [
            network["IPAddress"]
            for node in found
            for network in node["NetworkSettings"]["Networks"].values()
        ]
        self.address = re.compile("|".join(rf"\b{re.escape(address)}\b" for address in addresses))
        self.links = {
            int(output("podman", "exec", node, "cat", "/sys/class/net/eth0/iflink"))
            for node in nodes
        }

    def left(self) -> dict[str, list[str]]:
        """By kind; a kind of which nothing is there is not named."""
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        found = {
            "processes": list(self._processes()),
            "mounts": [
                line
                for line in mounts
                if any(word in line for word in (*self.ids, *self.namespaces, *self.volumes))
            ],
            "cgroups": [
                path
                for path, _, _ in os.walk("/sys/fs/cgroup")
                if any(word in path for word in self.ids)
            ],
            "interfaces": [
                link["ifname"]
                for link in json.loads(output("ip", "-j", "link"))
                if link["ifindex"] in self.links
            ],
            "rules": [
                line for line in output("iptables-save").splitlines() if self.address.search(line)
            ],
            "containers": sorted(
                self.names & set(engine("podman", "ps", "--all", "--format", "{{.Names}}").split())
            ),
            "volumes": sorted(
                self.volumes & set(engine("podman", "volume", "ls", "--quiet").split())
            ),
        }
        return {what: entries for what, entries in found.items() if entries}

    def stay(self, seconds: float = 30.0) -> dict[str, list[str]]:
        """What is left after this time."""
        end = time.monotonic() + seconds
        while (found := self.left()) and time.monotonic() < end:
            time.sleep(0.5)
        return found

    def _processes(self) -> Iterator[str]:
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                said = (folder / "cgroup").read_text() + (folder / "cmdline").read_text(
                    errors="replace"
                )
                if any(word in said for word in self.ids):
                    yield f"{folder.name} {(folder / 'comm').read_text().strip()}"
            except OSError:  # ended meanwhile
                continue
