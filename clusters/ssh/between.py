"""``--cluster ssh://A,ssh://B --lab``: the lab's models between two machines, over their NICs."""

from __future__ import annotations

import itertools
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal

from cnibench.clusters.lab import certified
from cnibench.clusters.lab.namespaces import congestion
from cnibench.clusters.ssh.bare import BareMachines, shown
from cnibench.clusters.ssh.inspection.comparison import differences, firewalls, pair_problems
from cnibench.clusters.ssh.inspection.report import Seen, seen
from cnibench.clusters.ssh.lab import payload, requirements
from cnibench.clusters.ssh.lab.deployment import PairDeployment
from cnibench.clusters.ssh.lab.remote import Remote
from cnibench.clusters.ssh.machine import Machine, on_both
from cnibench.clusters.ssh.restoring import Comparison, compared
from cnibench.errors import ClusterError, CnibenchError, EndedError, UsageError
from cnibench.model.cell import Cell
from cnibench.model.profile import Profile
from cnibench.registry import packages_of, provider
from cnibench.testbed.capabilities.cell_limits import CellLimits
from cnibench.testbed.capabilities.consent import Consent
from cnibench.testbed.capabilities.outages import Outage, Outages
from cnibench.testbed.cluster import Options, Problem, Wire

_LIST = 120.0  # s: of all files
_ASK = 60.0  # s
_GONE = 10.0  # s until what ended there is gone
_LISTED = (
    "tx-tcp-segmentation",
    "tx-udp_tnl-segmentation",
    "tx-udp_tnl-csum-segmentation",
    "tx-ipxip4-segmentation",
    "tx-checksum-ip-generic",
    "rx-gro",
    "rx-gro-hw",
)  # features of the NIC that decide how tunnels are sent and received


class SshLab(BareMachines, CellLimits, Consent, Outages):
    """Each machine has a node of each deployment: a namespace with a macvlan device on its NIC."""

    kind: ClassVar[str] = "ssh-lab"
    takes: ClassVar[frozenset[str]] = frozenset({"allow_node_changes"})
    deploys: ClassVar[type] = PairDeployment
    simultaneous: ClassVar[bool] = True
    slices: ClassVar[Literal["", "together", "in turn"]] = "together"
    cycles_in_slices: ClassVar[bool] = False
    most_pairs: ClassVar[int] = 1
    testbed: str = "lab"

    @classmethod
    def at(cls, text: str) -> type[BareMachines]:
        return super().at(text.replace(f"{cls.kind}://", "ssh://", 1))

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        if options.ip != (4,):
            raise UsageError("--lab between machines has IPv4 alone", "--ip 4")
        for given, name in (
            (options.wire_offload, "--wire-offload"),
            (options.wire_rate, "--wire-rate"),
        ):
            if given:
                raise UsageError(
                    f"{name} is of the lab's own wire, and this one is real",
                    "leave it out; ethtool changes what a NIC does",
                )
        self.congestion_control = options.congestion_control or congestion.DEFAULT
        self._remotes: list[Remote] = []
        self._numbers = itertools.count(1)
        self._deployments: list[PairDeployment] = []
        self._certified: dict[str, dict[str, Any]] = {}  # by label, what certificates say of it
        self._before: list[list[str]] = []
        self._more: list[Seen] = []

    @property
    def wire(self) -> Wire:  # type: ignore[override]  # known when the machines were looked at
        one, two = (machine.seen or Seen({}) for machine in self.machines)
        kinds = tuple(more["kind"] for more in self._more) or ("", "")
        return requirements.wire((one["driver"], two["driver"]), (kinds[0], kinds[1]))

    def missing(self) -> list[Problem]:
        """Nothing is changed by it; the lab's side is started on both machines."""
        if shutil.which("ssh") is None:
            return [
                Problem(
                    "", "the program ssh is not installed", "sudo apt-get install openssh-client"
                )
            ]
        if self._remotes:
            return []
        try:
            on_both(self.machines, Machine.inspect)
            if found := self.problems():
                return found
            return self._begin()
        except CnibenchError as error:
            return [Problem("", error.message, error.remedy)]

    def problems(self) -> list[Problem]:
        one, two = self.machines
        found = [
            problem
            for machine in self.machines
            for problem in requirements.problems(str(machine.address), machine.inspected)
        ]
        names = [str(machine.address) for machine in self.machines]
        return [*found, *pair_problems(names, one.inspected, two.inspected)]

    def _begin(self) -> list[Problem]:
        """Starts the lab's side on both machines; what it lacks there."""
        modules = " ".join(payload.LIBRARIES)

        def look(machine: Machine) -> str:
            return machine.run("lab", machine.inspected["device"], modules, timeout=_ASK).stdout

        said = on_both(self.machines, look)
        self._more = [seen(one) for one in said]
        problems = [
            problem
            for machine, more in zip(self.machines, self._more, strict=True)
            for problem in requirements.of_nic(
                str(machine.address),
                machine.inspected["device"],
                machine.inspected,
                more,
                self.options.mtu,
            )
        ]
        if problems:
            return problems
        run, programs = secrets.token_hex(3), packages_of("workloads")
        options = {
            "mtu": self.options.mtu,
            "congestion_control": self.congestion_control,
            "settings": {label: dict(keys) for label, keys in self.options.settings.items()},
        }
        for number, (machine, output) in enumerate(zip(self.machines, said, strict=True)):
            remote = Remote(machine, number, machine.inspected["device"])
            self._remotes.append(remote)
            remote.open(payload.chosen(payload.interpreters(output)), run, options)
            answer = remote.ask("missing", programs=sorted(programs))
            remote.absent, remote.features = answer["absent"], answer["features"]
            problems += [
                Problem("", f"{machine.address}: {one['lacks']}", one["remedy"])
                for one in answer["problems"]
            ]
        return problems

    def check(self, profile: Profile, options: Options | None = None) -> list[Problem]:
        given = (options or self.options).settings
        settings = {**given.get("", {}), **given.get(profile.name, {})}
        found: dict[str, Problem] = {}
        for remote in self._remotes:
            for one in remote.check(profile, settings) if remote.opened else ():
                found.setdefault(
                    one["lacks"],
                    Problem(
                        profile.name, f"{one['lacks']}, on {remote.machine.address}", one["remedy"]
                    ),
                )
        return list(found.values())

    def refuses(self, profile: Profile, cell: Cell) -> str:
        tools = provider("workloads", cell.workload).tools
        for remote in self._remotes:
            if absent := sorted(set(tools) & set(remote.absent)):
                packages = " ".join(sorted({tools[tool] for tool in absent}))
                return (
                    f"{remote.machine.address} has no {', '.join(absent)} (apt-get install"
                    f" {packages})"
                )
        return ""

    def kernel_access_denied(self) -> str:
        return "--lab between machines measures without perf, and does not look into their kernels"

    def permit(self, cells: Sequence[Cell]) -> None:
        """Cells change nothing: see ``preview``."""

    def preview(
        self, profiles: Mapping[str, Profile], seconds: float, volume: float
    ) -> Sequence[str]:
        """Raises UsageError when devices on the NICs were not allowed."""
        both = " and ".join(
            f"{machine.inspected['device']} of {machine.address}" for machine in self.machines
        )
        if not self.allowed.node_changes:
            raise UsageError(
                f"macvlan devices would be made on {both}, and that was not allowed",
                "--allow-node-changes allows it: they are in network namespaces of their own, and"
                " gone with the run, even if it is killed",
            )
        return [
            f"{both}: {', '.join(profiles)}, as models in namespaces with a macvlan device each;"
            " nothing is installed, and nothing stays",
            *differences(*(machine.inspected for machine in self.machines)),
            *firewalls(*(machine.inspected for machine in self.machines)),
        ]

    def install(self, label: str, profile: Profile) -> PairDeployment:
        if not self.allowed.node_changes:  # a run that was begun without, and is resumed
            raise EndedError("--allow-node-changes is missing", "start a new run with it")
        if not self._before:
            self.notify("listing what both machines have")
            self._before = on_both(self.machines, _listing)
        number = next(self._numbers)
        deployment = PairDeployment(label, profile, self.options, self._remotes, number)
        self._deployments.append(deployment)
        if profile.cni != "none":
            given = self.options.settings
            settings = {**given.get("", {}), **given.get(label, {})}
            kernels = " and ".join(dict.fromkeys(one.inspected["kernel"] for one in self.machines))
            self._certified[label] = certified.of(profile, kernels, settings, self.options.ip)
        return deployment

    def environment(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"wire_offload": "as the machines' devices have it"}
        facts["nodes"] = {
            machine.name: {
                **{
                    name: one for name, one in shown(machine.inspected).items() if name != "address"
                },
                "features": {
                    name: remote.features[name] for name in _LISTED if name in remote.features
                },
            }
            for machine, remote in zip(self.machines, self._remotes, strict=True)
        }
        if self._certified:
            facts["certificates"] = dict(self._certified)
        if self._deployments:
            facts["sysctls"] = self._deployments[-1].settings
            facts["unheld"] = sorted({said for one in self._deployments for said in one.unheld})
        return facts

    def outages(self, suspect: bool = False) -> list[Outage]:
        """Raises EndedError when a machine is lost: what was made there is gone."""
        for remote in self._remotes:
            if remote.lost:
                raise EndedError(remote.lost, "resume the run when the machine is there again")
        return []

    def __exit__(self, *error: object) -> None:
        """Nothing of ours stays on either machine, whatever happened."""
        for deployment in self._deployments:
            try:
                deployment.remove()
            except CnibenchError:  # it goes with its tree
                pass
        self._deployments.clear()
        for remote in self._remotes:
            remote.close()
        self._remotes.clear()
        failures = []
        before, self._before = self._before, []
        if before:
            for machine, were in zip(self.machines, before, strict=True):
                try:
                    found = compared(were, partial(_listing, machine), _GONE)
                except CnibenchError as failure:
                    failures.append(failure)
                    continue
                found = replace(found, restarted=machine.connection.restarted)
                self.notify(f"{machine.address}: {found.words()}")
                if not found.same:
                    failures.append(_changed(machine, found))
        self.disconnect()
        if failures and error and error[0] is None:
            raise failures[0]


def _listing(machine: Machine) -> list[str]:
    return machine.run("list", timeout=_LIST).stdout.splitlines()


def _changed(machine: Machine, found: Comparison) -> ClusterError:
    return ClusterError(f"{machine.address} is {found.words()}", found.remedy)
