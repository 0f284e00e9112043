"""The section of the runs and the machine that the figures are from."""

from __future__ import annotations

from collections.abc import Mapping

from cnibench.analysis.model import Analysis
from cnibench.reports.document.parts import Section, Table, text_of


def environment(analysis: Analysis, whole: bool) -> list[Section]:
    """But for ``whole`` only the first environment, without its lists and tables."""
    rows = []
    for run in analysis.runs:
        rows += [
            ["run", run.id],
            ["started", run.started],
            ["finished", run.finished or "not finished"],
            ["command", run.command],
        ]
        rows += [[name, value] for name, value in run.facts.items()]
        rows += [["seed", str(run.seed)], ["cnibench", run.tool_version]]
    for facts in analysis.environments[: None if whole else 1]:
        rows += [
            [key, text]
            for key, text in _flat(facts)
            if whole or not isinstance(facts.get(key.split(".")[0]), Mapping | list)
        ]
    return [Section("Run and environment", [Table(["what", "value"], rows, numbers=False)])]


def _flat(facts: Mapping[str, object], prefix: str = "") -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for key, value in facts.items():
        if key == "offload" and isinstance(value, Mapping):
            found += [(f"tunnels of NIC {name}", said) for name, said in _nics(value)]
        elif isinstance(value, Mapping):
            found += _flat(value, f"{prefix}{key}.")
        elif key not in ("schema", "tool_version") and value not in ("", None, []):
            found.append((f"{prefix}{key}", text_of(value)))
    return found


def _nics(facts: Mapping[str, object]) -> list[tuple[str, str]]:
    """(node and NIC, ``VXLAN over IPv4 offloaded, ...``) of what a run stored of its NICs; strange
    entries are passed over.
    """
    found: dict[str, list[str]] = {}
    rows = facts.get("tunnels")
    for one in rows if isinstance(rows, list) else []:
        if isinstance(one, Mapping):
            found.setdefault(f"{one.get('nic')} of {one.get('node')}", []).append(
                f"{one.get('tunnel')} {one.get('outcome')}"
            )
    return [(name, ", ".join(said)) for name, said in found.items()]
