"""What a CNI makes on the machines: claimed there before it is installed, so that whatever ends the
run, the machine knows what is ours, and what somebody else has or makes under the same names.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cnibench.clusters.ssh.files import POD_SUBNETS
from cnibench.clusters.ssh.machine import Machine, on_both
from cnibench.errors import ClusterError
from cnibench.model.profile import Profile

_ASK = 60.0  # s
_TAKES_OVER = 5  # exit status of scripts/cni.sh


@dataclass(frozen=True)
class Claim:
    """One profile on both machines."""

    machines: Sequence[Machine]
    profile: Profile
    families: tuple[int, ...]

    def begin(self) -> None:
        """Before the installation. Raises ClusterError when it would take over devices that a
        machine has.
        """
        lines = "\n".join(declared(self.profile, self.families))

        def one(machine: Machine) -> None:
            words = ("cni", "begin", self.profile.name, lines)
            done = machine.run(*words, timeout=_ASK, check=False)
            if done.returncode == _TAKES_OVER:
                raise taken_over(str(machine.address), self.profile.name, done.stderr)
            if done.returncode:
                raise ClusterError(f"{machine.address}: {done.stderr.strip()[-300:]}")

        if lines:
            on_both(self.machines, one)

    def ready(self) -> None:
        """What is there now of what was claimed is ours. Raises ClusterError."""
        self._tell("ready")

    def end(self) -> None:
        """It was removed. Raises ClusterError."""
        self._tell("end")

    def _tell(self, what: str) -> None:
        on_both(
            self.machines, lambda machine: machine.run("cni", what, self.profile.name, timeout=_ASK)
        )


def taken_over(machine: str, profile: str, said: str) -> ClusterError:
    """The error for the lines that scripts/cni.sh prints: ``device NAME``."""
    names = [line.partition(" ")[2] for line in said.splitlines() if line.startswith("device ")]
    return ClusterError(
        f"{machine} has devices that {profile} would take over: {', '.join(names)}",
        "rename them there (ip link set NAME name OTHER), or leave this profile out",
    )


def declared(profile: Profile, families: Sequence[int]) -> list[str]:
    """Lines KIND NAME of all that a profile's CNI makes on a machine; nothing where none is
    installed. Devices by their exact names: those of Pods, whose names vary, go with the Pods.
    """
    about = profile.kubernetes
    if about is None or about.host_network:
        return []
    leaves = about.leaves
    devices = dict.fromkeys((*about.tunnel.values(), *leaves.devices))
    found = {
        "device": [name for name in devices if not set(name) & set("*?[")],
        "chain": leaves.chains,
        "rule": leaves.rules,
        "ipset": leaves.ipsets,
        "nft_table": leaves.nft_tables,
        "program": leaves.programs,
        "table": leaves.route_tables,
        "file": leaves.files,
        "subnet": list(_beginnings(families)),
    }
    return [f"{kind} {name}" for kind, names in found.items() for name in names]


def _beginnings(families: Sequence[int]) -> Iterator[str]:
    """How the addresses of the Pods' networks begin, as ``ip route`` shows them."""
    for family in families:
        network = ipaddress.ip_network(POD_SUBNETS[family])
        size, mark = (8, ".") if family == 4 else (16, ":")
        first = POD_SUBNETS[family].split(mark)[: network.prefixlen // size]
        yield mark.join(first) + mark
