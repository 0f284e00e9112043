"""The embedded lab: two nodes that are network namespaces, Pods that are namespaces, each profile
in a deployment of its own.
"""

from __future__ import annotations

import itertools
import os
import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from cnibench.clusters.lab import certified, kernel
from cnibench.clusters.lab.builders.base import builder_of
from cnibench.clusters.lab.deployment import MOST_PODS, LabDeployment
from cnibench.clusters.lab.namespaces import congestion, features, tree, wire
from cnibench.clusters.lab.proxies.base import proxy_of, too_many
from cnibench.errors import ClusterError, CnibenchError
from cnibench.model import conditions
from cnibench.model.cell import Cell
from cnibench.model.profile import Datapath, Profile
from cnibench.offload import reading
from cnibench.offload.nic import Nic
from cnibench.registry import packages_of, provider
from cnibench.testbed.capabilities.cell_limits import CellLimits
from cnibench.testbed.capabilities.nics import Nics
from cnibench.testbed.capabilities.service_changes import ServiceChanges
from cnibench.testbed.capabilities.service_time import ServiceTime
from cnibench.testbed.cluster import Cluster, Options, Problem, Wire, lacking_family

_SMALLEST = {4: 576, 6: 1280}  # bytes: RFC 791, RFC 8200


class LabCluster(Cluster, CellLimits, Nics, ServiceTime):
    """Profiles as models of the CNIs' datapaths, on this kernel, with real traffic. Works within
    ``carry``.
    """

    kind: ClassVar[str] = "lab"
    tools: ClassVar[Mapping[str, str]] = {
        "nsenter": "util-linux",
        "iptables-restore": "iptables",
        "ip6tables-restore": "iptables",
        "ipset": "ipset",
        "taskset": "util-linux",
        "ss": "iproute2",
    }
    elsewhere: ClassVar[str] = "--kernel vm, or "  # where this kernel lacks something
    deploys: ClassVar[type] = LabDeployment
    simultaneous: ClassVar[bool] = True
    concurrent: ClassVar[bool] = True
    slices: ClassVar[Literal["", "together", "in turn"]] = "together"
    wire: Wire = "veth"
    paths: ClassVar[tuple[str, ...]] = ("pod", "clusterip")
    most_pairs: ClassVar[int] = MOST_PODS // 2 - 1  # both Pods on one node, and room for a stranger

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.testbed = "vm" if options.in_vm else "lab"
        self.congestion_control = options.congestion_control or congestion.DEFAULT
        self.model = wire.model(options)
        self._deployments: list[LabDeployment] = []
        self._certified: dict[str, dict[str, Any]] = {}  # by label, what certificates say of it
        self._numbers = itertools.count(1)  # of deployments; next() is atomic, others install, too

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
                    f"the congestion control {name} is not available",
                    f"sudo modprobe tcp_{name}, or ask for another with --congestion-control",
                )
            )
        absent = [tool for tool in self.tools if shutil.which(tool) is None]
        for package in sorted({self.tools[tool] for tool in absent}):
            tools = ", ".join(tool for tool in absent if self.tools[tool] == package)
            problems.append(
                Problem("", f"not installed: {tools}", f"sudo apt-get install {package}")
            )
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
        builder, given = builder_of(
            profile, {**settings.get("", {}), **settings.get(profile.name, {})}
        )
        possible = builder.proxies(given)
        if profile.proxy not in ("", *possible):
            return [_no_model(profile, possible)]
        proxy = proxy_of(profile.proxy or possible[0])
        problems = []
        needs = dict.fromkeys((*builder.needs, *profile.datapath.needs, *proxy.needs))
        for need in needs:
            if need not in kernel.FEATURES:
                raise ClusterError(
                    f"{profile.name}: datapath.needs: '{need}' is not known",
                    f"there are: {', '.join(kernel.FEATURES)}",
                )
            if not kernel.found(needs).get(need, False):
                problems.append(self._lacks(profile.name, need))
        for program, package in {**builder.programs, **proxy.programs}.items():
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

    def refuses(self, profile: Profile, cell: Cell) -> str:
        asked = conditions.of(cell.params)
        services = asked.services if asked is not None else None
        if (
            services is None
            and cell.path != "clusterip"
            and ServiceChanges not in provider("workloads", cell.workload).needs
        ):
            return ""
        settings = self.options.settings
        builder, given = builder_of(
            profile, {**settings.get("", {}), **settings.get(cell.label, {})}
        )
        possible = builder.proxies(given)
        name = profile.proxy or possible[0]
        if name == "none" and (others := [one for one in possible if one != name]):
            return f"nothing implements Services: name --proxy {' or '.join(others)}"
        if reason := builder.no_services(given, name):
            return reason
        proxy = proxy_of(name)
        if cell.ip not in proxy.families:
            return f"the model of {name} has no Services of IPv{cell.ip}"
        if services is not None:
            families = sum(family in profile.features.ip for family in self.options.ip)
            return too_many(name, services, families, self.options.room)
        return ""

    def service_seconds(self, profile: Profile) -> float:
        builder, given = builder_of(profile)
        return proxy_of(profile.proxy or builder.proxies(given)[0]).seconds_each

    def _lacks(self, name: str, need: str) -> Problem:
        feature, program = kernel.FEATURES[need], kernel.program(need)
        if program and shutil.which(program) is None:  # whether the kernel has it is not known
            package = {**packages_of("workloads"), **self.tools}.get(program, program)
            remedy = f"sudo apt-get install {package}"
            return Problem(name, f"the program {program} ({feature.words})", remedy)
        if os.geteuid() and feature is kernel.FEATURES["tc-bpf"]:
            return Problem(name, f"{feature.words} (not without root)", "run as root")
        remedy = f"use {self.elsewhere}a kernel with {feature.option}"
        if Path("/proc/modules").exists() and feature.module:
            remedy = f"sudo modprobe {feature.module}, or {remedy}"
        return Problem(name, f"{feature.option} ({feature.words})", remedy, kind="kernel")

    def install(self, label: str, profile: Profile) -> LabDeployment:
        if not tree.kind():
            raise ClusterError(
                "the lab works within a tree of namespaces of its own only",
                "this is a bug: the command must use carry()",
            )
        deployment = LabDeployment(label, profile, self.options, next(self._numbers))
        self._deployments.append(deployment)
        self._look_up(label, profile)
        return deployment

    def _look_up(self, label: str, profile: Profile) -> None:
        """What certificates say of the model: an agent was compared with it, or none was."""
        if label in self._certified or profile.cni == "none":
            return
        settings = self.options.settings
        given = {**settings.get("", {}), **settings.get(label, {})}
        self._certified[label] = certified.of(profile, platform.release(), given, self.options.ip)

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
        if self._certified:
            facts["certificates"] = dict(self._certified)
        if self._deployments:
            deployment = self._deployments[-1]
            facts["sysctls"] = deployment.settings
            facts["unheld"] = sorted({said for one in self._deployments for said in one.unheld()})
            facts["wire_features"] = {
                node.name: sorted(k for k, on in features.read(node.ns, node.wire).items() if on)
                for node in deployment.nodes()
            }
        return facts

    def __exit__(self, *error: object) -> None:
        while self._deployments:
            try:
                self._deployments.pop().remove()
            except CnibenchError:
                if error[0] is None:
                    raise


def _no_model(profile: Profile, possible: Sequence[str]) -> Problem:
    return Problem(
        profile.name,
        f"Services by {profile.proxy} with its model",
        f"--proxy {' or '.join(possible)}, or leave it out",
    )


def _overhead(datapath: Datapath, family: int) -> int:
    return datapath.overhead + (datapath.overhead_ipv6 if family == 6 else 0)


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("model name", "Model")):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
