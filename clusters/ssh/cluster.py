"""Two machines over ssh: checked, made a cluster for the run, measured as an existing one, and put
back.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from cnibench.clusters.existing import PROVIDER as Existing
from cnibench.clusters.existing.cluster import ExistingCluster
from cnibench.clusters.existing.deployment import ExistingDeployment
from cnibench.clusters.kubernetes import images
from cnibench.clusters.kubernetes.cni import suitability
from cnibench.clusters.kubernetes.ownership import safety, state
from cnibench.clusters.kubernetes.pods import unsupported
from cnibench.clusters.ssh import bringup, restoring
from cnibench.clusters.ssh.bare import BareMachines
from cnibench.clusters.ssh.claims import Claim
from cnibench.clusters.ssh.files import API_PORT
from cnibench.clusters.ssh.machine import Machine
from cnibench.clusters.ssh.restoring import Comparison
from cnibench.errors import ClusterError, CnibenchError, EndedError, MissingError
from cnibench.model import conditions
from cnibench.model.cell import Cell
from cnibench.model.profile import Profile
from cnibench.system import scratch
from cnibench.system.interrupt import uninterrupted
from cnibench.testbed.capabilities.cell_limits import CellLimits
from cnibench.testbed.capabilities.consent import Consent
from cnibench.testbed.capabilities.outages import Outage, Outages
from cnibench.testbed.cluster import Options, Problem, Wire

_MAKING = 120.0  # s that bring-up and put-back take, for plans


class SshCluster(BareMachines, CellLimits, Consent, Outages):
    """Measured by an ExistingCluster, as soon as there is one."""

    deploys: ClassVar[type] = Existing.deploys
    slices: ClassVar[Literal["", "together", "in turn"]] = Existing.slices
    cycles_in_slices: ClassVar[bool] = Existing.cycles_in_slices
    most_pairs: ClassVar[int] = Existing.most_pairs
    paths: ClassVar[tuple[str, ...]] = Existing.paths
    pod_seconds: ClassVar[float] = Existing.pod_seconds
    conntrack_bypass: ClassVar[bool] = Existing.conntrack_bypass
    testbed: str = "cluster"

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._inner: ExistingCluster | None = None
        self._taken: list[Machine] = []  # those that no other run uses, from then on

    @property
    def wire(self) -> Wire:  # type: ignore[override]  # known when the agents have looked
        return self._inner.wire if self._inner else "nic"

    def missing(self) -> list[Problem]:
        return [*super().missing(), *self._missing_images()]

    def _missing_images(self) -> Iterator[Problem]:
        """Ours and those that were named: asked before a machine is changed."""
        for path in self.options.cluster.image_archive:
            if not Path(path).is_file():
                remedy = "podman save or docker save makes one"
                yield Problem("", f"there is no image archive {path}", remedy)
        if not self.options.cluster.registry:
            try:
                images.need(images.engine())
            except MissingError as error:
                yield Problem("", error.message, error.remedy)

    def check(self, profile: Profile, options: Options | None = None) -> list[Problem]:
        found = suitability.problems(profile, options or self.options)
        if profile.kubernetes is not None and not profile.kubernetes.kube_proxy:
            found.append(
                Problem(
                    profile.name,
                    "a cluster without kube-proxy, which --cluster ssh://... does not make",
                    "measure it on kind, or on an existing cluster without kube-proxy",
                )
            )
            return found
        needed = profile.kubernetes.kube_proxy_mode if profile.kubernetes else ""
        if (mode := profile.proxy or needed) not in ("", "iptables"):
            found.append(
                Problem(
                    profile.name,
                    f"Services by {mode}: kube-proxy is in mode iptables with --cluster ssh://...",
                    "measure it on kind, or on an existing cluster that has it",
                )
            )
        return found

    def refuses(self, profile: Profile, cell: Cell) -> str:
        return unsupported.refusal(profile, cell) or unsupported.too_many_services(
            profile,
            cell,
            lambda: [machine.inspected.number("memory") << 10 for machine in self.machines],
        )

    def seconds(self, profile: Profile) -> float:
        return 60.0

    def permit(self, cells: Sequence[Cell]) -> None:
        asked = [conditions.of(cell.params) for cell in cells]
        if not self.allowed.node_changes and any(
            one and one.offload and one.offload.wire != "default" for one in asked
        ):
            raise safety.RefusedError(
                "the condition offload.wire would change the NICs of both machines",
                "--allow-node-changes allows it: the old values are saved on the machine's disk"
                " first and restored afterwards, even if cnibench is killed",
            )

    def preview(
        self, profiles: Mapping[str, Profile], seconds: float, volume: float
    ) -> Sequence[str]:
        """Raises RefusedError when installing was not allowed."""
        both = " and ".join(str(machine.address) for machine in self.machines)
        if not self.allowed.install:
            raise safety.RefusedError(
                f"Kubernetes {self.source.version} would be installed on {both}, and that was not"
                " allowed",
                "--allow-install allows it: what is changed is recorded on each machine first, and"
                " put back at the end",
            )
        return [
            f"{both}: Kubernetes {self.source.version} and containerd are installed from"
            f" {self.source}, {', '.join(profiles)} one after the other;"
            + (
                " kept (--keep)"
                if self.options.keep
                else " at the end both machines are put back as they are now"
            )
            + f"; about {_MAKING:.0f} s beside the measuring",
            *self.remarks(),
        ]

    def install(self, label: str, profile: Profile) -> ExistingDeployment:
        inner = self._made()
        claim = Claim(self.machines, profile, self.options.ip)
        claim.begin()
        try:
            deployment = inner.install(label, profile)
        except BaseException:
            with uninterrupted(), contextlib.suppress(CnibenchError):  # the first failure says more
                claim.ready()
            raise
        claim.ready()
        uninstall = deployment.uninstall
        if uninstall is not None:  # something was installed

            def uninstall_and_end() -> None:
                uninstall()
                claim.end()

            deployment.uninstall = uninstall_and_end
        return deployment

    def _made(self) -> ExistingCluster:
        """The cluster, made when it is asked for first. Raises EndedError when it cannot be: no
        other profile would get one either.
        """
        if self._inner is None:
            if not self.allowed.install:  # a run that was begun without, and is resumed
                raise EndedError("--allow-install is missing", "start a new run with it")
            try:
                self._inner = self._make()
            except CnibenchError as error:
                raise EndedError(f"no cluster was made: {error.message}", error.remedy) from None
        return self._inner

    def _make(self) -> ExistingCluster:
        self._run = state.new_name()
        for machine in self.machines:
            machine.inspect()
        if found := self.problems():
            raise MissingError(found[0].lacks, found[0].remedy)
        for machine in self.machines:
            bringup.hold(machine)
            self._taken.append(machine)
        bringup.begin(self.machines, self._run)
        made = bringup.make(
            self.machines,
            self.source,
            self._archives(),
            self.options.ip,
            self._stack.enter_context(scratch.folder()),
            self.notify,
        )
        self._kubeconfig = made.kubeconfig
        given = replace(
            self.options.cluster.only(Existing.takes),
            kubeconfig=str(made.kubeconfig),
            client_node=made.nodes[0],
            server_node=made.nodes[1],
            allow_install=True,
        )
        inner = Existing(replace(self.options, cluster=given))
        inner.notify = self.notify
        return inner

    def _archives(self) -> list[Path]:
        """Our images and those of CNIs that this machine has: nothing need be pulled then."""
        given = [Path(one) for one in self.options.cluster.image_archive]
        registry = self.options.cluster.registry or ""
        try:
            engine = images.engine()
        except MissingError:
            if registry:
                return given
            raise
        ours = [images.reference(kind, registry) for kind in images.KINDS]
        here = [name for name in ours if "@" not in name and engine.has(name)]  # no digest to load
        if not registry:
            images.need(engine)
        return [*([images.archive(engine, here)] if here else []), *given]

    def environment(self) -> dict[str, Any]:
        facts = self._inner.environment() if self._inner else {}
        return {"wire_offload": "as the machines' devices have it", **facts}

    def outages(self, suspect: bool = False) -> list[Outage]:
        return self._inner.outages(suspect) if self._inner else []

    def __exit__(self, *error: object) -> None:
        """The machines that were taken as they were, whatever happened; or kept."""
        failures: list[CnibenchError] = []
        inner, self._inner = self._inner, None
        if inner is not None:
            inner.notify = self.notify
            try:
                inner.__exit__(*error)
            except CnibenchError as failure:  # what it left goes with the cluster
                if self.options.keep:
                    failures.append(failure)
        if self._taken and not (self.options.keep and inner is not None):
            failures += self._put_back()
        elif self._taken:
            print(self._keep(self._kubeconfig), file=sys.stderr)
        self._taken.clear()
        self.disconnect()
        if failures and error and error[0] is None:
            raise failures[0]

    def _keep(self, kubeconfig: Path) -> str:
        """How to look at what was kept."""
        one, _ = self.machines
        admin = json.loads(kubeconfig.read_text())
        address = one.inspected["address"]
        host = f"[{address}]" if ":" in address else address
        admin["clusters"][0]["cluster"]["server"] = f"https://{host}:{API_PORT}"
        path = state.folder() / f"{self._run}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(json.dumps(admin))
        return (
            f"kept: KUBECONFIG={path} kubectl get pods -A; 'cnibench clean --cluster {self.text}'"
            " puts both machines back"
        )

    def _put_back(self) -> list[CnibenchError]:
        self.notify(f"putting back {' and '.join(str(one.address) for one in self._taken)}")
        failures: list[CnibenchError] = []
        restored = restoring.put_back(self._taken, self._run)
        for machine, found in zip(self._taken, restored, strict=True):
            words = found.words() if isinstance(found, Comparison) else found.message
            self.notify(f"{machine.address}: {words}")
            if isinstance(found, CnibenchError):
                failures.append(
                    ClusterError(
                        f"{machine.address} is not restored: {found.message}",
                        f"cnibench clean --cluster {self.text}",
                    )
                )
            elif not found.same:
                failures.append(
                    ClusterError(
                        f"{machine.address} is {found.words()}",
                        f"cnibench clean --cluster {self.text}" if found.failed else found.remedy,
                    )
                )
        return failures
