"""The embedded lab: two nodes that are network namespaces, Pods that are namespaces, each profile
on a stand of its own.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from cnibench.clusters.lab import kernel
from cnibench.clusters.lab.builders.base import builder_of
from cnibench.clusters.lab.deployment import MOST_PODS, LabDeployment
from cnibench.clusters.lab.namespaces import congestion, features, tree, wire
from cnibench.errors import ClusterError, CnibenchError
from cnibench.model.profile import Datapath, Profile
from cnibench.offload import reading
from cnibench.offload.nic import Nic
from cnibench.testbed.capabilities.nics import Nics
from cnibench.testbed.cluster import Cluster, Options, Problem, Wire, lacking_family

_TOOLS = {
    "nsenter": "util-linux",
    "iptables-restore": "iptables",
    "ip6tables-restore": "iptables",
    "ipset": "ipset",
    "taskset": "util-linux",
    "ss": "iproute2",
}
_SMALLEST = {4: 576, 6: 1280}  # bytes: RFC 791, RFC 8200


class LabCluster(Cluster, Nics):
    """Profiles as models of the CNIs' datapaths, on this kernel, with real traffic. Works within
    ``carry``.
    """

    kind: ClassVar[str] = "lab"
    deploys: ClassVar[type] = LabDeployment
    simultaneous: ClassVar[bool] = True
    slices: ClassVar[bool] = True
    wire: Wire = "veth"
    most_pairs: ClassVar[int] = MOST_PODS // 2 - 1  # both Pods on one node, and room for a stranger

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.testbed = "vm" if options.in_vm else "lab"
        self.congestion_control = options.congestion_control or congestion.DEFAULT
        self.model = wire.model(options)
        self._stands: list[LabDeployment] = []
        self._made = 0

    @classmethod
    def carry(cls, main: Callable[[], int]) -> int:
        return tree.carry(main)

    def nics(self, every: bool = False) -> tuple[list[Nic], list[int]]:
        """Those of this machine: the lab's own are models."""
        return reading.here(), reading.vxlan_ports()

    def missing(self) -> list[Problem]:
        problems = []
        refused, _, remedy = kernel.tree_problem().partition("\0")
        if refused:
            problems.append(Problem("", refused, remedy))
        if self.congestion_control not in congestion.available():
            name = self.congestion_control
            problems.append(
                Problem(
                    "",
                    f"the congestion control {name}",
                    f"sudo modprobe tcp_{name}, or ask for another with --congestion-control",
                )
            )
        packages = {package for tool, package in _TOOLS.items() if shutil.which(tool) is None}
        for package in sorted(packages):
            tools = ", ".join(
                tool for tool, of in _TOOLS.items() if of == package and shutil.which(tool) is None
            )
            problems.append(Problem("", f"the program {tools}", f"sudo apt-get install {package}"))
        return problems

    def check(self, profile: Profile, options: Options | None = None) -> list[Problem]:
        """Raises InputError when its datapath's options are wrong."""
        options = options or self.options
        if profile.datapath is None:
            remedy = "choose another profile"
            if profile.kubernetes:
                remedy = "use --cluster kind or --cluster existing for it"
                if profile.kubernetes.installed_by:
                    remedy = "measure it where it runs: --cluster existing --cni current"
            return [Problem(profile.name, profile.reason or "a datapath model for the lab", remedy)]
        settings = options.settings
        builder, _ = builder_of(profile, {**settings.get("", {}), **settings.get(profile.name, {})})
        problems = []
        needs = dict.fromkeys((*builder.needs, *profile.datapath.needs))
        for need in needs:
            if need not in kernel.FEATURES:
                raise ClusterError(
                    f"{profile.name}: datapath.needs: '{need}' is not known",
                    f"there are: {', '.join(kernel.FEATURES)}",
                )
            if not kernel.found(needs).get(need, False):
                problems.append(self._lacks(profile.name, kernel.FEATURES[need]))
        for program, package in builder.programs.items():
            if shutil.which(program) is None:
                problems.append(
                    Problem(
                        profile.name,
                        f"the program {Path(program).name}",
                        f"sudo apt-get install {package}",
                    )
                )
        for family in options.ip:
            if family not in profile.features.ip:
                problems.append(lacking_family(profile, family))
            elif options.mtu < (
                smallest := _SMALLEST[family] + _overhead(profile.datapath, family)
            ):
                problems.append(
                    Problem(
                        profile.name, f"an MTU that IPv{family} allows", f"--mtu {smallest} or more"
                    )
                )
        return problems

    def _lacks(self, name: str, feature: kernel.Feature) -> Problem:
        if os.geteuid() and feature is kernel.FEATURES["tc-bpf"]:
            return Problem(name, f"{feature.words} (not without root)", "run as root")
        remedy = f"use --kernel vm, or a kernel with {feature.option}"
        if Path("/proc/modules").exists() and feature.module:
            remedy = f"sudo modprobe {feature.module}, or {remedy}"
        return Problem(name, f"{feature.option} ({feature.words})", remedy, kind="kernel")

    def install(self, label: str, profile: Profile) -> LabDeployment:
        if not tree.kind():
            raise ClusterError(
                "the lab works within a tree of namespaces of its own only",
                "this is a defect: the command has to use carry()",
            )
        self._made += 1
        deployment = LabDeployment(label, profile, self.options, self._made)
        self._stands.append(deployment)
        return deployment

    def environment(self) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "kernel": platform.release(),
            "cpu_model": _cpu_model(),
            "cpus": len(os.sched_getaffinity(0)),
            "namespaces": tree.kind(),
            "lacks": tree.lacks(),
            "wire_offload": self.model,
            "wire_mtu": self.options.mtu,
            "wire_rate": self.options.wire_rate,
            "kernel_features": dict(kernel.tried() or kernel.found(("veth",))),
        }
        if self._stands:
            deployment = self._stands[-1]
            facts["sysctls"] = deployment.settings
            facts["unheld"] = sorted({said for one in self._stands for said in one.unheld()})
            facts["wire_features"] = {
                node.name: sorted(k for k, on in features.read(node.ns, node.wire).items() if on)
                for node in deployment.nodes()
            }
        return facts

    def __exit__(self, *error: object) -> None:
        while self._stands:
            try:
                self._stands.pop().remove()
            except CnibenchError:
                if error[0] is None:
                    raise


def _overhead(datapath: Datapath, family: int) -> int:
    return datapath.overhead + (datapath.overhead_ipv6 if family == 6 else 0)


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("model name", "Model")):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
