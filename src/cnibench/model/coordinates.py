"""The circumstances of a figure, each declared once: its role, its unit, its words
(docs/adr/0007-context.md).

identity    part of what is measured: figures that differ in it are different figures
must agree  figures that differ in it are never pooled, compared or resumed
free        recorded only

context.py derives everything else from these tables. What is not in them fails a unit test.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cnibench.model.units import human

Role = Literal["identity", "must agree", "free"]
# The value of a coordinate that is read back for each sample, where that failed. It agrees with
# every other value, so that such a sample is compared with the rest of its cell.
UNREAD = "not read"
NONE = "none"  # the congestion control of a sample without TCP
NOT_RECORDED = "not recorded"


@dataclass(frozen=True)
class Coordinate:
    """One circumstance. ``at`` says where env.json has it (keys joined by dots, the first that is
    there counts).

    ``options`` of ``cnibench run`` set it. ``usual`` values go without saying in a description,
    others are said with ``phrase``.
    ``named`` are words for particular values, ``first`` are values in the order of reports.
    ``read_back``: read from each sample while it is measured, so that it may change within a run.
    ``about`` says in a line what a column of it has, where ``title`` does not.
    ``version``: it may change along a trend, which shows what it does to the figures.
    """

    name: str
    role: Role
    title: str
    sql: str = "VARCHAR"
    unit: str = ""
    options: tuple[str, ...] = ()
    at: tuple[str, ...] = ()
    phrase: str = ""
    usual: tuple[Any, ...] = ()
    named: tuple[tuple[Any, str], ...] = ()
    first: tuple[Any, ...] = ()
    read_back: bool = False
    about: str = ""
    version: bool = False

    def words(self, value: Any) -> str:
        """A value in words: ``200 Mbit/s``, ``unlimited``, ``not recorded``."""
        for known, said in self.named:
            if value == known and type(value) is not bool:
                return said
        if value is None or value == "":
            return NOT_RECORDED
        if self.unit == "s" and isinstance(value, int | float):
            return f"{value:g} s"
        if self.unit and isinstance(value, int | float):
            return human(value, self.unit) if self.unit != "B" else f"{value} B"
        return (
            value
            if isinstance(value, str)
            else json.dumps(value, separators=(",", ":"), sort_keys=True)
        )

    def rank(self, value: Any) -> tuple[int, Any]:
        """The value's position in the order of reports."""
        if value in self.first:
            return self.first.index(value), 0
        return len(self.first), value

    def of(self, environment: Mapping[str, Any]) -> Any:
        """Its value in env.json, None where that has none; a step ``*`` takes the distinct values
        of all nodes.
        """
        return _value(environment, self.at or (self.name,))


def _value(environment: Mapping[str, Any], paths: Iterable[str]) -> Any:
    for path in paths:
        value: Any = environment
        steps = path.split(".")
        while steps and isinstance(value, Mapping):
            if (step := steps.pop(0)) == "*":
                rest = ".".join(steps)
                found = [_value(one, (rest,)) for one in value.values()]
                value = sorted({one for one in found if isinstance(one, str) and one}) or None
                break
            value = value.get(step)
        if value is not None and not isinstance(value, Mapping):
            return value
    return None


# What is compared with each other: a label, and what its profile is made of.
LABEL = (
    Coordinate(
        "label", "identity", "label", options=("cni",), about="name of the profile in its run"
    ),
    Coordinate(
        "profile",
        "must agree",
        "profile",
        options=("cni", "plan"),
        about="profile that was deployed",
        version=True,
    ),
    Coordinate(
        "settings",
        "must agree",
        "settings",
        options=("settings",),
        named=(("", "none"),),
        version=True,
    ),
    Coordinate("fidelity", "must agree", "fidelity", about="cni, datapath-model or baseline"),
    Coordinate(
        "proxy",
        "identity",
        "implementation of Services",
        options=("proxy",),
        about="of Services; '': not recorded",
    ),
    # Out of env.json, by label: the SHA-256 of each chart, manifest and image of the CNI.
    Coordinate("installed", "must agree", "installed", at=("installed",), version=True),
)

# Where a figure was measured, in the order in which reports sort.
PLACE = (
    Coordinate(
        "workload",
        "identity",
        "workload",
        options=("workload", "scale"),
        about="what was driven through the network",
    ),
    Coordinate(
        "placement",
        "identity",
        "placement",
        options=("placement",),
        first=("intra", "inter"),
        named=(("intra", "on one node"), ("inter", "between nodes")),
        about="intra: on one node; inter: between nodes",
    ),
    Coordinate(
        "path",
        "identity",
        "path",
        options=("path",),
        phrase="path {}",
        usual=("pod",),
        about="how the client reached the server",
    ),
    Coordinate(
        "params",
        "identity",
        "parameters",
        "JSON",
        options=("workload", "scale"),
        about="parameters, with the cell's conditions",
    ),
    Coordinate(
        "ip",
        "identity",
        "IP version",
        "INTEGER",
        options=("ip",),
        phrase="IPv{}",
        usual=(0, 4),
        about="IP version: 4 or 6",
    ),
    Coordinate(
        "mtu",
        "must agree",
        "MTU",
        "INTEGER",
        "B",
        options=("mtu",),
        phrase="MTU {}",
        usual=(0, 1500),
        named=((0, NOT_RECORDED),),
        about="MTU between the nodes; 0: not recorded",
    ),
    Coordinate(
        "cpus",
        "must agree",
        "CPU pinning",
        options=("cpus",),
        about="CPU pinning: shared, split or none",
    ),
    Coordinate(
        "pair",
        "identity",
        "pair",
        "INTEGER",
        phrase="pair {}",
        usual=(0,),
        about="number of the Pod pair, from 0",
    ),
    Coordinate(
        "pairs",
        "must agree",
        "pairs at the same time",
        "INTEGER",
        options=("pairs",),
        usual=(1,),
        about="Pod pairs measured at the same time",
    ),
    Coordinate(
        "testbed",
        "must agree",
        "testbed",
        options=("cluster", "lab", "kernel", "kind_nodes", "node_image"),
        about="lab, vm, kind or cluster",
    ),
    Coordinate(
        "wire", "must agree", "wire", options=("cluster", "lab"), about="veth, virtio or nic"
    ),
    Coordinate(
        "wire_offload",
        "must agree",
        "wire offload",
        options=("wire_offload", "allow_node_changes"),
        about="segmentation offloads of the wire",
    ),
    Coordinate(
        "wire_rate",
        "must agree",
        "wire rate",
        "DOUBLE",
        "bit/s",
        options=("wire_rate",),
        usual=(0,),
        named=((0, "unlimited"),),
        about="rate limit of the wire; 0: unlimited",
    ),
    Coordinate(
        "duration",
        "must agree",
        "duration",
        "DOUBLE",
        "s",
        options=("duration", "scale"),
        named=((0, NOT_RECORDED),),
        about="measured time of a sample",
    ),
    Coordinate(
        "warmup_time",
        "must agree",
        "warm-up",
        "DOUBLE",
        "s",
        options=("warmup",),
        usual=(0,),
        about="warm-up before each sample",
    ),
    Coordinate(
        "method",
        "must agree",
        "method",
        options=("method",),
        usual=("windows",),
        about="slices or windows",
    ),
    Coordinate(
        "slice_length",
        "must agree",
        "slice length",
        "DOUBLE",
        "s",
        usual=(0,),
        about="of a slice, what counts; 0: windows",
    ),
    Coordinate(
        "lead_in",
        "must agree",
        "lead-in",
        "DOUBLE",
        "s",
        usual=(0,),
        about="of a slice, what does not count",
    ),
    Coordinate(
        "priority",
        "must agree",
        "priority",
        options=("priority",),
        usual=("normal",),
        read_back=True,
        about="of client and server: real-time, normal",
    ),
    Coordinate(
        "congestion_control",
        "must agree",
        "congestion control",
        options=("congestion_control",),
        read_back=True,
        about="of the TCP connections; none: no TCP",
    ),
)

# The machine and the programs, out of env.json.
MACHINE = (
    Coordinate("kernel", "must agree", "kernel", options=("kernel",), version=True),
    Coordinate("architecture", "must agree", "architecture"),
    Coordinate("cpu_model", "must agree", "CPU"),
    Coordinate("cpus", "must agree", "CPUs"),
    Coordinate("cpus_online", "must agree", "CPUs online"),
    Coordinate("virtualisation", "must agree", "virtualisation", named=(("", "none"),)),
    Coordinate("accelerator", "must agree", "accelerator of the VM", named=((None, "none"),)),
    Coordinate("smt", "must agree", "SMT"),
    Coordinate("turbo", "must agree", "turbo", named=(("", "off"),)),
    Coordinate("governor", "must agree", "frequency governor", named=(("", "none"),)),
    Coordinate("clocksource", "must agree", "clock source"),
    Coordinate("nic", "must agree", "NIC", at=("nic", "nics", "cluster.nics")),
    Coordinate(
        "nic_speed",
        "must agree",
        "link speed of the nodes' NICs (Mbit/s)",
        at=("nodes.*.device.speed",),
    ),
    Coordinate(
        "node_kernels",
        "must agree",
        "kernels of the nodes",
        at=("nodes.*.kernelVersion",),
        version=True,
    ),
    Coordinate("node_cpus", "must agree", "CPUs of the nodes", at=("nodes.*.cpu_model",)),
    Coordinate("kubernetes", "must agree", "Kubernetes", options=("kubernetes",), version=True),
    Coordinate(
        "kind_node_image",
        "must agree",
        "image of kind's nodes",
        options=("node_image",),
        named=(("", "kind's own"),),
        version=True,
    ),
    Coordinate("network", "must agree", "network"),
    Coordinate(
        "max_rate", "must agree", "cap of what Pods send", unit="bit/s", options=("max_rate",)
    ),
    Coordinate(
        "pod_resources", "must agree", "requests and limits of the Pods", options=("pod_resources",)
    ),
    Coordinate("tool_version", "must agree", "tool version", version=True),
    *(
        Coordinate(f"tools.{name}", "must agree", name, version=True)
        for name in ("netperf", "iperf3", "ab", "nginx", "perf")
    ),
)

# What is recorded and decides nothing: of env.json, of a line of samples.jsonl, of the command
# line.
FREE_FACTS = frozenset(
    {
        "schema",
        "python",
        "os",
        "memory",
        "tsc_hz",
        "load",
        "steal",
        "privileged",
        "tools",
        "namespaces",
        "lacks",
        "certificates",
        "kernel_features",
        "wire_mtu",
        "sysctls",
        "unheld",
        "busy",
        "node_load",
        "wire_features",
        "offload",
        "nodes",
        "source",
        "platform",
        "imported",
        "releases",
        "nics",
        "cluster",
        "pairs",  # between which nodes they are
        "testbed",
        "wire",
        "wire_offload",
        "wire_rate",  # on each line as well
    }
)
FREE_FIELDS = frozenset(
    {
        "schema",
        "cell",
        "value",
        "unit",
        "better",
        "status",
        "reason",
        "warmup",
        "start",
        "end",
        "attempt",
        "disturbed",
    }
)
FREE_OPTIONS = frozenset(
    {
        "blocks",
        "resolution",
        "noise",
        "target_ci",
        "max_blocks",
        "budget",
        "no_perf",
        "seed",
        "plan",
        "folder",
        "title",
        "fact",
        "keep",
        "dry_run",
        "verbose",
        "quiet",
        "resume",
        "retry_failed",
        "patience",
        "wait_quiet",
        "as_json",
        "kubeconfig",
        "context",
        "as_user",
        "as_group",
        "namespace",
        "client_node",
        "server_node",
        "client_selector",
        "server_selector",
        "toleration",
        "allow_load",
        "allow_install",
        "allow_replace",
        "registry",
        "pull_secret",
        "image_archive",
    }
)
# Identity as well: which figure of a sample it is, and in which block.
FIGURE = ("window", "metric", "block")
