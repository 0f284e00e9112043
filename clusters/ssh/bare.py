"""Two machines before anything is changed: what they are, what is in the way, what an earlier run
left on them.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import ClassVar

from cnibench.clusters.kubernetes.nodes import similarity
from cnibench.clusters.kubernetes.ownership import safety, state
from cnibench.clusters.ssh import bringup, restoring
from cnibench.clusters.ssh.address import Address, parse
from cnibench.clusters.ssh.inspection.comparison import (
    differences,
    firewalls,
    installed_differently,
    pair_problems,
)
from cnibench.clusters.ssh.inspection.obstacles import problems
from cnibench.clusters.ssh.inspection.report import Seen
from cnibench.clusters.ssh.machine import Machine, MachinePlace, on_both
from cnibench.clusters.ssh.sources import Source, source
from cnibench.errors import ClusterError, CnibenchError, UsageError
from cnibench.offload import reading
from cnibench.offload.nic import Nic
from cnibench.testbed.capabilities.nics import Nics
from cnibench.testbed.capabilities.node_inspection import NodeInspection, Nodes, Remark
from cnibench.testbed.capabilities.ownership import Leftover, Ownership
from cnibench.testbed.cluster import Cluster, Options, Problem
from cnibench.testbed.cluster_options import PODS

# Facts that are shown of a machine, and compared.
_SHOWN = (
    "os_name",
    "kernel",
    "architecture",
    "cpu_model",
    "cpus",
    "governor",
    "smt",
    "turbo",
    "address",
    "device",
    "driver",
    "speed",
    "duplex",
    "mtu",
    "rings",
    "interrupts",
    "irqbalance",
    "synchronised",
    "virtual",
)


class BareMachines(Cluster, NodeInspection, Nics, Ownership):
    """``ssh://A,ssh://B``: ``at`` gives the kind for two machines, ``text`` is how they were
    named.
    """

    kind: ClassVar[str] = "ssh"
    takes: ClassVar[frozenset[str]] = PODS | {
        "namespace",
        "toleration",
        "max_rate",
        "allow_load",
        "allow_install",
        "allow_node_changes",
        "patience",
        "image_archive",
        "kubernetes",
    }
    looking: ClassVar[str] = ""  # nothing is started there
    manages_nodes: ClassVar[bool] = False
    addresses: ClassVar[tuple[Address, Address] | None] = None
    text: ClassVar[str] = "ssh"

    @classmethod
    def at(cls, text: str) -> type[BareMachines]:
        """The kind of cluster that these two machines are. Raises UsageError."""
        return type(cls.__name__, (cls,), {"addresses": parse(text), "text": text})

    def __init__(self, options: Options) -> None:
        """Raises UsageError, InputError; no machine is talked to yet."""
        super().__init__(options)
        if self.addresses is None:
            raise UsageError(
                "--cluster ssh names no machines", "write --cluster ssh://root@one,ssh://root@two"
            )
        if len(options.ip) > 1:
            raise UsageError("--cluster ssh://... has one IP version", "--ip 4, or --ip 6")
        self.allowed = safety.Allowed.of(options.cluster)
        self.machines = [Machine(name, one) for name, one in zip("ab", self.addresses, strict=True)]
        self._stack = contextlib.ExitStack()
        for machine in self.machines:
            machine.connection.notify = lambda text: self.notify(text)

    @cached_property
    def source(self) -> Source:
        """Raises InputError."""
        return source(self.options.cluster.kubernetes, self._stack)

    def missing(self) -> list[Problem]:
        if shutil.which("ssh") is None:
            return [
                Problem(
                    "", "the program ssh is not installed", "sudo apt-get install openssh-client"
                )
            ]
        _ = self.source  # what was given wrong is told before anything is connected to
        try:
            on_both(self.machines, Machine.inspect)
        except ClusterError as error:
            return [Problem("", error.message, error.remedy)]
        return self.problems()

    def problems(self) -> list[Problem]:
        """What is in the way on the machines, as the last inspection saw them."""
        one, two = self.machines
        found = [
            problem
            for machine in self.machines
            for problem in problems(
                str(machine.address), machine.inspected, self.source, machine is one
            )
        ]
        names = [str(machine.address) for machine in self.machines]
        return [*found, *pair_problems(names, one.inspected, two.inspected)]

    def remarks(self) -> list[str]:
        """What the machines differ in, and in what would be installed, in words."""
        one, two = self.machines
        seen = one.inspected, two.inspected
        return [*differences(*seen), *firewalls(*seen), *installed_differently(*seen, self.source)]

    def kernel_access_denied(self) -> str:
        return ""  # root's

    def compare_nodes(self) -> Nodes:
        """By what was asked over ssh: nothing is started there."""
        facts = {machine.name: shown(machine.inspected) for machine in self.machines}
        systems = {name: one["os_name"] for name, one in facts.items()}
        found = [*similarity.remarks(facts)]
        if len(set(systems.values())) > 1:
            said = ", ".join(f"{name}: {one}" for name, one in systems.items())
            found.insert(
                0,
                Remark(
                    "differs",
                    f"distribution differs between the nodes: {said}",
                    "install the same on both: its kernel, its containerd and its settings count",
                ),
            )
        return Nodes(facts, found)

    def nics(self, every: bool = False) -> tuple[list[Nic], list[int]]:
        found = on_both(self.machines, lambda machine: _nics(machine, every))
        return [nic for own, _ in found for nic in own], sorted(
            {port for _, ports in found for port in ports}
        )

    def leftovers(
        self, owners: Sequence[str] = (), notify: Callable[[str], None] = print
    ) -> list[Leftover]:
        """A machine that cannot be reached comes last: the other one is put back first. Raises
        ClusterError when neither can be.
        """
        self.notify = notify
        found, away = [], []
        for machine, seen in zip(self.machines, on_both(self.machines, _inspected), strict=True):
            if isinstance(seen, ClusterError):
                away.append((machine, seen))
                continue
            if not seen["journal"]:
                continue
            kept = remedy = ""
            if seen["used"] == "yes":
                kept, remedy = "a run uses it", "wait for its end"
            elif seen["owner"] not in {state.owner(), *owners}:
                kept, remedy = "it is another owner's", f"--owner {seen['owner']}"
            found.append(
                Leftover(
                    f"what the run {seen['run']} changed on {machine.address}",
                    _removal(machine, notify),
                    seen["owner"],
                    "put back by the journal that is on it",
                    kept,
                    remedy,
                )
            )
        if len(away) == len(self.machines):
            raise away[0][1]
        return [*found, *(_unknown(machine, error) for machine, error in away)]

    def disconnect(self) -> None:
        """May be called twice."""
        for machine in self.machines:
            machine.connection.close()
        self._stack.close()


def _nics(machine: Machine, every: bool) -> tuple[list[Nic], set[int]]:
    return reading.of_node(MachinePlace(machine), machine.inspected["device"], machine.name, every)


def _inspected(machine: Machine) -> Seen | ClusterError:
    try:
        return machine.inspect()
    except ClusterError as error:
        return error


def _unknown(machine: Machine, error: ClusterError) -> Leftover:
    """What a machine has that cannot be asked."""

    def remove() -> None:
        raise error

    return Leftover(
        f"what a run may have changed on {machine.address}", remove, about="it cannot be reached"
    )


def _removal(machine: Machine, notify: Callable[[str], None]) -> Callable[[], object]:
    def remove() -> None:
        bringup.hold(machine)
        (found,) = restoring.put_back([machine], machine.inspected["run"])
        if isinstance(found, CnibenchError):
            raise found
        notify(f"{machine.address}: {found.words()}")
        (state.folder() / f"{machine.inspected['run']}.kubeconfig").unlink(missing_ok=True)
        state.unmark_ended()
        if found.failed:
            raise ClusterError(
                f"{machine.address}: {'; '.join(found.failed)}", "see what holds it, and repeat"
            )

    return remove


def shown(seen: Seen) -> dict[str, str]:
    """What is shown of a machine, and compared."""
    facts = {name: seen[name] for name in _SHOWN}
    hypervisor = facts["virtual"]
    return facts | {"virtual": "no" if hypervisor == "none" else "yes" * bool(hypervisor)}
