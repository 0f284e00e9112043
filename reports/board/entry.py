"""One bundle on the board: its facts, its figures, and the data that rankings are made of."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cnibench.analysis.model import Analysis
from cnibench.cpp.colors import grouped
from cnibench.model import measured
from cnibench.model.context import coordinate
from cnibench.model.units import human
from cnibench.reports._escape import plain
from cnibench.reports._looks import looks
from cnibench.reports.board import division, effects, flames
from cnibench.reports.board.versions import version
from cnibench.reports.bundle.verifying import Verified
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import Record

# What a policy can do, one feature each: Table I of qi2021.
POLICIES = ("kubernetes", "third_party", "ingress", "egress", "L3", "L4", "L7")
_LONGEST = 120  # characters of a fact
_UNKNOWN = "not recorded"
_PLACEMENT = coordinate("placement")
_MOST_CYCLES = 200  # rows of cycles on a page


@dataclass(frozen=True)
class Cni:
    """A CNI as it was measured: ``version`` is '' of a model; ``policies`` is the number of
    POLICIES that it has.
    """

    name: str
    version: str
    fidelity: str
    policies: int
    color: str = field(compare=False)

    @property
    def title(self) -> str:
        model = " (model)" if self.fidelity == "datapath-model" else ""
        return f"{self.name}{' ' if self.version else ''}{self.version}{model}"


@dataclass(frozen=True)
class Cycles:
    """Cycles per packet of a CNI in a use case: (component, cycles), the largest first. ``flame``
    is its flame graph, packed; b'' where the bundle has no call stacks of it.
    """

    label: str
    use: str
    source: str
    parts: list[tuple[str, float]]
    flame: bytes


@dataclass(frozen=True)
class Entry:
    """``facts`` are for filters, ``details`` for people: (name, value); ``colors`` are those of the
    labels.
    """

    run: str
    finished: str
    facts: dict[str, str]
    details: list[tuple[str, str]]
    command: str
    division: division.Division
    cnis: dict[str, Cni]
    colors: dict[str, str]
    places: list[effects.Place]
    rows: list[effects.Row]
    cycles: list[Cycles]
    failed: dict[str, int]
    attested: tuple[int, int]
    sha256: str
    signer: str
    size: int

    @property
    def models(self) -> bool:
        """Is one of its CNIs a model?"""
        return any(one.fidelity == "datapath-model" for one in self.cnis.values())


def of(found: Verified, reader: RunReader, analysis: Analysis) -> Entry:
    """The entry of a verified bundle; every text in it is one line without hidden characters."""
    judged = division.of(reader.plan)
    fidelity = {one.label: one.fidelity for one in analysis.results}
    failed: dict[str, int] = {}
    for failure in analysis.failures:
        failed[failure.label] = failed.get(failure.label, 0) + (failure.block >= 0)
    signer, installed = found.signer, reader.installed
    graphs = flames.packed(found, fidelity)
    facts = _facts(reader.environment, analysis) | {"division": judged.name}
    colors = {label: look.color for label, look in looks(reader.plan.profiles).items()}
    return Entry(
        run=found.run,
        finished=plain(reader.finished, 40),
        facts=facts,
        details=_details(reader),
        command=plain(shlex.join(reader.plan.command), 2000),
        division=judged,
        cnis={
            label: _cni(label, reader, installed, fidelity.get(label, ""), colors[label])
            for label in reader.plan.profiles
            if fidelity.get(label, "baseline") != "baseline"
        },
        colors=colors,
        places=effects.places(analysis),
        rows=effects.rows(analysis),
        cycles=[
            Cycles(
                plain(one.label, _LONGEST),
                f"{plain(one.workload, _LONGEST)} {_PLACEMENT.words(one.placement)}",
                one.cycles_source,
                sorted(
                    grouped(one.components, one.unclassified).items(), key=lambda item: -item[1]
                ),
                graphs.get(flames.key(one.label, one), b""),
            )
            for one in analysis.cpp[:_MOST_CYCLES]
        ],
        failed=failed,
        attested=(sum(one.passed for one in analysis.attestations), len(analysis.attestations)),
        sha256=found.sha256,
        signer=f"{signer.name or 'unknown'} ({signer.kind} {signer.fingerprint})" if signer else "",
        size=found.path.stat().st_size,
    )


def _facts(environment: Record, analysis: Analysis) -> dict[str, str]:
    """What readers filter by."""
    kinds = sorted({one.testbed for one in analysis.results})
    wires = sorted({one.wire for one in analysis.results})
    kernels = measured.values(environment, "kernel")
    short = dict.fromkeys(".".join(one.split(".")[:2]) for one in kernels)
    return {
        "kind": plain(", ".join(kinds), _LONGEST),
        "wire": plain(", ".join(wires), _LONGEST),
        "nic": plain(_nic(environment), _LONGEST),
        "cpu": _fact(environment, "cpu_model"),
        "architecture": _fact(environment, "architecture"),
        "kernel": plain(", ".join(short), _LONGEST) or _UNKNOWN,
    }


def _fact(environment: Record, name: str) -> str:
    """Of the machines that were measured."""
    found = measured.values(environment, name)
    return plain(", ".join(found), _LONGEST) or _UNKNOWN


def _nic(environment: Record) -> str:
    """The driver and speed of the nodes' NICs; where the wire is none, that does not matter."""
    if environment.get("wire") != "nic":
        return "none: the wire is virtual"
    nics = filter(None, map(measured.nic, measured.nodes(environment)))
    found = set()
    for one in nics:
        speed = re.fullmatch(r"[1-9]\d{0,8}", str(one.get("speed")))  # in Mbit/s
        words = f", {human(int(speed[0]) * 1e6, 'bit/s')}" if speed else ""
        found.add(f"{one.get('driver', _UNKNOWN)}{words}")
    return "; ".join(sorted(found)) or _UNKNOWN


def _details(reader: RunReader) -> list[tuple[str, str]]:
    names = {
        "kernel": "kernel",
        "cpu_model": "CPU",
        "cpus": "CPUs",
        "virtualisation": "virtualisation",
        "governor": "frequency governor",
        "clocksource": "clock source",
    }
    environment, plan = reader.environment, reader.plan
    found = [(title, _fact(environment, name)) for name, title in names.items()]
    found.append(("Kubernetes", plain(environment.get("kubernetes") or _UNKNOWN, _LONGEST)))
    memory = environment.get("memory")
    if isinstance(memory, int | float) and not measured.apart(environment):
        found.append(("memory", f"{memory / 2**30:.0f} GiB"))
    found += [
        ("cnibench", plain(plan.tool_version, _LONGEST)),
        ("measured", f"{len(plan.cells)} cells in {plan.blocks} blocks, seed {plan.seed}"),
    ]
    return found


def _cni(
    label: str, reader: RunReader, installed: Mapping[str, Any], fidelity: str, color: str
) -> Cni:
    profile = reader.plan.profiles[label]
    name = str(profile.get("name") or label)
    shown = label if division.own_label(label, profile) else f"{label} = {name}"
    found = version(label, profile, reader.plan.plan, installed) if fidelity == "cni" else ""
    return Cni(plain(shown, _LONGEST), found, fidelity, _policies(profile), color)


def _policies(profile: Mapping[str, Any]) -> int:
    features = profile.get("features")
    policy = features.get("policy") if isinstance(features, dict) else None
    if not isinstance(policy, dict):
        return 0
    layers = policy.get("layers")
    found = [name for name in POLICIES if policy.get(name) is True]
    return len(found) + len({*POLICIES[4:]} & {str(one) for one in layers or ()})
