"""A section for each place with cycles per packet: a column for each component."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cnibench.analysis.model import Analysis, Cpp, Where
from cnibench.analysis.text.places import of_cell
from cnibench.analysis.text.standings import named
from cnibench.model import context
from cnibench.model.metrics import PACKETS
from cnibench.reports.document.parts import Section, Table

# samples of perf: an interval (95 %) of a share of one half is then three percent of the total wide
# each way
_FEW = 1000
_SOURCES = {"pmu": "pmu (of the cores)", "estimated": "estimated (of the TSC)"}
_SMALL = 0.01  # a component below this share of every total is added to the others


def cycles(analysis: Analysis) -> list[Section]:
    """One section for each place that has cycles per packet."""
    found: dict[tuple[object, ...], list[Cpp]] = {}
    for row in analysis.cpp:
        key = (row.environment, context.key(msgspec.structs.asdict(row), context.OF_RECORD))
        found.setdefault(key, []).append(row)
    lots = list(found.values())
    names = named([of_cell(**_place(rows[0])) for rows in lots], _where)
    return [_cycles_of(rows, name) for rows, name in zip(lots, names, strict=True)]


def _place(row: Cpp) -> dict[str, object]:
    own = {name: getattr(row, name) for name in context.OF_RECORD}
    return own | {"environment": row.environment}


def _where(where: Where) -> str:
    return f"{where.workload}, {where.placement}" + (
        f", path {where.path}" if where.path != "pod" else ""
    )


def _cycles_of(rows: Sequence[Cpp], where: str) -> Section:
    names = dict.fromkeys(name for row in rows for name in row.components)
    largest = {
        name: max(row.components.get(name, 0.0) / row.total if row.total else 0.0 for row in rows)
        for name in names
    }
    shown = sorted(
        (name for name in names if largest[name] >= _SMALL), key=lambda name: -largest[name]
    )
    small = [name for name in names if name not in shown]
    heads = ["profile", "total", "unclassified", *shown, *(["others"] if small else [])]
    table = []
    for row in sorted(rows, key=lambda row: row.total):
        numbers = [row.total, row.unclassified, *(row.components.get(name, 0.0) for name in shown)]
        numbers += [sum(row.components.get(name, 0.0) for name in small)] if small else []
        table.append(
            [
                row.label,
                *(f"{number:.0f}" if abs(number) >= 100 else f"{number:.1f}" for number in numbers),
            ]
        )
    sources = ", ".join(
        dict.fromkeys(_SOURCES.get(row.cycles_source, row.cycles_source) for row in rows)
    )
    lines = [
        f"cycles: {sources}, without idle; components, unclassified and others add up to the total",
        f"packets: {PACKETS}",
    ]
    if any(row.cpus == "split" for row in rows):
        lines.append(
            "CPUs split: of all CPUs; without idle time and thus without the waking of an idle CPU,"
            " and without what a hypervisor does for interrupts between CPUs"
        )
    if outside := _shares(rows, "outside"):
        lines.append(
            "outside the workload's programs (interrupts, ksoftirqd, softirqs on idle CPUs), and so"
            f" not in CPU time per transaction or byte: {outside}"
        )
    if idle := _shares(rows, "idle"):
        lines.append(f"idle, of the time of all CPUs: {idle}")
    if small:
        lines.append(f"others: {', '.join(small)}")
    if all(row.seconds > 0 for row in rows):
        each = ", ".join(f"{row.label} {row.counted / row.seconds:.0f}" for row in rows)
        lines.append(f"samples of perf per second of measuring: {each}")
    if few := [row for row in rows if 0 < row.counted < _FEW]:
        shares = ", ".join(
            f"{row.label} {row.counted} (±{100 / row.counted**0.5:.0f} %)" for row in few
        )
        lines.append(f"few samples (uncertainty of a share, in percent of the total): {shares}")
    return Section(f"cycles per packet by component: {where}", [Table(heads, table)], lines)


def _shares(rows: Sequence[Cpp], name: str) -> str:
    """``flannel 12 %, cilium 9 %``; '' where no run tells."""
    known = [(row.label, getattr(row, name)) for row in sorted(rows, key=lambda row: row.total)]
    return ", ".join(f"{label} {share:.0%}" for label, share in known if share is not None)
