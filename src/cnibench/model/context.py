"""The circumstances of a figure, each declared once: its role, its unit, its words
(docs/adr/0007-context.md).

identity    part of what is measured: figures that differ in it are different figures
must agree  figures that differ in it are never pooled, compared or resumed
free        recorded only

Sample lines, pooling, the gate's keys, the check of --resume, the preconditions of claims, the
columns of ``query`` and of the reports are made from these tables. What is not in them fails a unit
test.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cnibench.model.units import human

Role = Literal["identity", "must agree", "free"]


@dataclass(frozen=True)
class Coordinate:
    """One circumstance. ``at`` says where env.json has it (keys joined by dots, the first that is
    there counts).

    ``options`` of ``cnibench run`` set it. ``usual`` values go without saying in a description,
    others are said with ``phrase``.
    ``named`` are words for particular values, ``first`` are values in the order of reports.
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

    def words(self, value: Any) -> str:
        """A value in words: ``200 Mbit/s``, ``unlimited``, ``not recorded``."""
        for known, said in self.named:
            if value == known and type(value) is not bool:
                return said
        if value is None or value == "":
            return "not recorded"
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
        """Where the value stands in the order of reports."""
        if value in self.first:
            return self.first.index(value), 0
        return len(self.first), value

    def of(self, environment: Mapping[str, Any]) -> Any:
        """Its value in env.json, None where that has none; a step ``*`` takes the distinct values
        of all nodes.
        """
        for path in self.at or (self.name,):
            value: Any = environment
            steps = path.split(".")
            while steps and isinstance(value, Mapping):
                if (step := steps.pop(0)) == "*":
                    rest = ".".join(steps)
                    found = [
                        Coordinate("", "free", "", at=(rest,)).of(one) for one in value.values()
                    ]
                    value = sorted({one for one in found if isinstance(one, str) and one}) or None
                    break
                value = value.get(step)
            if value is not None and not isinstance(value, Mapping):
                return value
        return None


_NONE = "not recorded"

# What is compared with each other: a label, and what its profile is made of.
LABEL = (
    Coordinate("label", "identity", "label", options=("cni",)),
    Coordinate("profile", "must agree", "profile", options=("cni", "plan")),
    Coordinate("settings", "must agree", "settings", options=("settings",), named=(("", "none"),)),
    Coordinate("fidelity", "must agree", "fidelity"),
)

# Where a figure was measured, in the order in which reports sort.
PLACE = (
    Coordinate("workload", "identity", "workload", options=("workload", "scale")),
    Coordinate(
        "placement",
        "identity",
        "placement",
        options=("placement",),
        first=("intra", "inter"),
        named=(("intra", "on one node"), ("inter", "between nodes")),
    ),
    Coordinate("path", "identity", "path", options=("path",), phrase="path {}", usual=("pod",)),
    Coordinate("params", "identity", "parameters", "JSON", options=("workload", "scale")),
    Coordinate(
        "ip", "identity", "IP version", "INTEGER", options=("ip",), phrase="IPv{}", usual=(0, 4)
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
        named=((0, _NONE),),
    ),
    Coordinate("cpus", "must agree", "CPU pinning", options=("cpus",)),
    Coordinate("pair", "identity", "pair", "INTEGER", phrase="pair {}", usual=(0,)),
    Coordinate(
        "pairs", "must agree", "pairs at the same time", "INTEGER", options=("pairs",), usual=(1,)
    ),
    Coordinate(
        "testbed",
        "must agree",
        "testbed",
        options=("cluster", "kernel", "kind_nodes", "node_image"),
    ),
    Coordinate("wire", "must agree", "wire", options=("cluster",)),
    Coordinate(
        "wire_offload", "must agree", "wire offload", options=("wire_offload", "allow_node_changes")
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
    ),
    Coordinate(
        "duration",
        "must agree",
        "duration",
        "DOUBLE",
        "s",
        options=("duration", "scale"),
        named=((0, _NONE),),
    ),
    Coordinate(
        "warmup_time", "must agree", "warm-up", "DOUBLE", "s", options=("warmup",), usual=(0,)
    ),
    Coordinate("method", "must agree", "method", options=("method",), usual=("windows",)),
    Coordinate(
        "congestion_control", "must agree", "congestion control", options=("congestion_control",)
    ),
)

# The machine and the programs, out of env.json.
MACHINE = (
    Coordinate("kernel", "must agree", "kernel", options=("kernel",)),
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
    Coordinate("node_kernels", "must agree", "kernels of the nodes", at=("nodes.*.kernelVersion",)),
    Coordinate("node_cpus", "must agree", "CPUs of the nodes", at=("nodes.*.cpu_model",)),
    Coordinate("kubernetes", "must agree", "Kubernetes"),
    Coordinate(
        "kind_node_image",
        "must agree",
        "image of kind's nodes",
        options=("node_image",),
        named=(("", "kind's own"),),
    ),
    Coordinate("network", "must agree", "network"),
    Coordinate(
        "max_rate", "must agree", "cap of what Pods send", unit="bit/s", options=("max_rate",)
    ),
    Coordinate("tool_version", "must agree", "tool version"),
    *(
        Coordinate(f"tools.{name}", "must agree", name)
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
        "kernel_features",
        "wire_mtu",
        "sysctls",
        "unheld",
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
        "no_perf",
        "seed",
        "plan",
        "out",
        "title",
        "keep",
        "dry_run",
        "verbose",
        "resume",
        "retry_failed",
        "patience",
        "as_json",
        "kubeconfig",
        "context",
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

OPTIONS = FREE_OPTIONS | {option for one in (*LABEL, *PLACE, *MACHINE) for option in one.options}
FACTS = FREE_FACTS | {path.split(".")[0] for one in MACHINE for path in one.at or (one.name,)}
FIELDS = FREE_FIELDS | {*FIGURE, *(one.name for one in (*LABEL, *PLACE))}

PLACE_NAMES = tuple(one.name for one in PLACE)
IDENTITY = tuple(one.name for one in PLACE if one.role == "identity")
MUST_AGREE = tuple(one for one in PLACE if one.role == "must agree")
# What a cell has of them: what every record of a collector says about where it belongs.
OF_CELL = (
    "profile",
    "label",
    "placement",
    "path",
    "workload",
    "params",
    "ip",
    "mtu",
    "cpus",
    "pair",
    "window",
)
OF_RECORD = tuple(name for name in OF_CELL if name in PLACE_NAMES)

# The columns of a line of samples.jsonl in SQL, in the order of its fields.
_SQL = {
    "schema": "INTEGER",
    "block": "INTEGER",
    "value": "DOUBLE",
    "warmup": "BOOLEAN",
    "start": "TIMESTAMP",
    "end": "TIMESTAMP",
    "attempt": "INTEGER",
}


def coordinate(name: str) -> Coordinate:
    """The coordinate of a label or place of that name."""
    return next(one for one in (*LABEL, *PLACE) if one.name == name)


def sql(field: str) -> str:
    """The SQL type of a field of a line."""
    return next(
        (one.sql for one in (*LABEL, *PLACE) if one.name == field), _SQL.get(field, "VARCHAR")
    )


def of_cell(cell: Any) -> dict[str, Any]:
    """A cell's own coordinates."""
    return {name: getattr(cell, name) for name in OF_CELL}


def place(where: Any) -> dict[str, Any]:
    """All coordinates of the place of a line or a figure."""
    return {name: getattr(where, name) for name in PLACE_NAMES}


def order(where: Mapping[str, Any]) -> tuple[Any, ...]:
    """A place's sort key but for its parameters, which the caller sorts by their numbers."""
    return tuple(one.rank(where[one.name]) for one in PLACE if one.name != "params")


def key(where: Mapping[str, Any], names: tuple[str, ...] = PLACE_NAMES) -> str:
    """Those coordinates as one value that can be compared."""
    return json.dumps([where[name] for name in names], sort_keys=True, default=str)


def unusual(where: Any) -> list[str]:
    """What of a place does not go without saying: ``path clusterip``, ``IPv6``."""
    return [
        one.phrase.format(value)
        for one in PLACE
        if one.phrase and (value := getattr(where, one.name)) not in one.usual
    ]


def told(where: Any) -> list[str]:
    """The circumstances that must agree, each in words, but for what is usual, not recorded, or in
    the description of the place.
    """
    values = [(one, getattr(where, one.name)) for one in MUST_AGREE if not one.phrase]
    return [
        f"{one.title} {said}"
        for one, value in values
        if value not in one.usual and (said := one.words(value)) != _NONE
    ]


def wire_offload(params: Mapping[str, Any], run: str) -> str:
    """The offload model of the wire that was in force: that of the cell's condition, else that of
    the run.
    """
    asked = params.get("offload.wire", "default")
    return run if asked == "default" else str(asked)


def congestion_control(environment: Mapping[str, Any]) -> str:
    """TCP's congestion control out of the settings that were read back; several joined by a comma,
    '' where none was recorded.
    """
    found: set[str] = set()

    def look(table: object, depth: int = 0) -> None:
        if isinstance(table, Mapping) and depth < 4:
            for name, value in table.items():
                if str(name).replace("/", ".") == "net.ipv4.tcp_congestion_control":
                    found.add(str(value))
                else:
                    look(value, depth + 1)

    look({"sysctls": environment.get("sysctls"), "nodes": environment.get("nodes")})
    return ",".join(sorted(found))


def fact(environment: Mapping[str, Any], name: str) -> Any:
    """A coordinate of the machine out of env.json, None where it has none."""
    return next(one for one in MACHINE if one.name == name).of(environment)


@dataclass(frozen=True)
class Disagreement:
    """Two values of one circumstance that must agree, in words."""

    title: str
    one: str
    other: str

    def __str__(self) -> str:
        return f"{self.title}: {self.one} against {self.other}"


def differing(one: Coordinate, ours: Any, theirs: Any, title: str = "") -> list[Disagreement]:
    """None or one: do these values of a coordinate agree?"""
    if ours == theirs:
        return []
    return [Disagreement(title or one.title, one.words(ours), one.words(theirs))]


def disagreements(
    recorded: Mapping[str, Any],
    present: Mapping[str, Any],
    *,
    partial: bool = True,
    machine: bool = True,
) -> list[Disagreement]:
    """What of the machine must agree and does not, out of two env.json, in the order of their
    declaration.

    ``partial``: what one of them does not have is no disagreement: an interrupted run had not
    recorded all of it yet, and a program may not tell its version. Without ``machine`` only the
    programs are compared.
    """
    found = []
    for one in MACHINE if machine else [one for one in MACHINE if one.name == "tool_version"]:
        ours, theirs = one.of(recorded), one.of(present)
        if not partial or (ours not in (None, "") and theirs not in (None, "")):
            found += differing(one, ours, theirs)
    return found
