"""The table of docs/services.md: what Services cost by implementation and number, of one run of the
plan ``services`` (or of a shorter one with its workloads).

    python benchmarks/services_page.py RUN

Writes what is between two marks in docs/services.md: conditions, medians over the blocks with the
smallest and the largest, and the turning points that the report found. Needs no root.
"""

from __future__ import annotations

import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from cnibench.analysis import analyse
from cnibench.analysis.model import Analysis, Result, Turning
from cnibench.model.units import human
from cnibench.rundir.index import find
from cnibench.rundir.reader import RunReader

PAGE = Path(__file__).parents[1] / "docs" / "services.md"
BEGIN, END = "<!-- begin: made by benchmarks/services_page.py -->", "<!-- end -->"
_COUNT = "services.count"
# (column, workload, metric)
_COLUMNS = (
    ("first packet, p50", "tcp-connect", "latency_p50"),
    ("first packet, p99", "tcp-connect", "latency_p99"),
    ("connections", "tcp-crr", "transaction_rate"),
    ("CPU time of the machine for one", "tcp-crr", "cpu"),
    ("transactions", "tcp-rr", "transaction_rate"),
    ("new Service reachable", "service-change", "service_reachable"),
    ("rules of the first packet", "rule-path", "rules"),
)
_CPU = ("cpu_user", "cpu_system", "cpu_softirq")
Key = tuple[int, str, str, str]  # services.count, implementation, workload, metric


def figures(analysis: Analysis) -> dict[Key, tuple[str, list[float]]]:
    """The values of the blocks, with their unit; CPU seconds of a transaction from both rates."""
    found: dict[Key, tuple[str, list[float]]] = {}
    by_block: dict[tuple[int, str, str], dict[int, float]] = defaultdict(dict)
    for one in analysis.results:
        if _COUNT not in one.params:
            continue
        key = (int(one.params[_COUNT]), one.proxy, one.workload)
        if not one.reading:
            found[*key, one.metric] = (one.unit, list(one.values))
        if one.workload == "tcp-crr" and one.metric in (*_CPU, "transaction_rate"):
            _add(by_block, one)
    for (count, proxy, what), rates in by_block.items():
        busy = by_block[count, proxy, "cpu"]
        both = rates.keys() & busy.keys()
        if what == "rate" and both:
            found[count, proxy, "tcp-crr", "cpu"] = (
                "s",
                [busy[b] / rates[b] for b in sorted(both)],
            )
    return found


def _add(by_block: dict[tuple[int, str, str], dict[int, float]], one: Result) -> None:
    what = "rate" if one.metric == "transaction_rate" else "cpu"
    values = by_block[int(one.params[_COUNT]), one.proxy, what]
    by_block.setdefault((int(one.params[_COUNT]), one.proxy, "cpu"), {})
    for block, value in zip(one.blocks, one.values, strict=True):
        values[block] = values.get(block, 0.0) + value


def table(analysis: Analysis, written: dict[tuple[int, str], list[float]]) -> list[str]:
    found = figures(analysis)
    columns = [one for one in _COLUMNS if any(key[2:] == one[1:] for key in found)]
    rows = sorted({key[:2] for key in found})
    out = [
        f"| Services | implementation | {' | '.join(one[0] for one in columns)} | written in |",
        f"| --- | --- |{' --- |' * (len(columns) + 1)}",
    ]
    for count, proxy in rows:
        cells = [_cell(*found.get((count, proxy, *one[1:]), ("", []))) for one in columns]
        cells.append(_cell("s", written.get((count, proxy), [])))
        out.append(f"| {count} | {proxy} | {' | '.join(cells)} |")
    return out


def _cell(unit: str, values: list[float]) -> str:
    if not values:
        return "-"
    middle = human(statistics.median(values), unit)
    if len(values) == 1 or min(values) == max(values):
        return f"{middle} (n = {len(values)})"
    return f"{middle} ({human(min(values), unit)} to {human(max(values), unit)}, n = {len(values)})"


def _turnings(found: Sequence[Turning]) -> Iterator[str]:
    """Those that were decided, and how many were not."""
    for one in found:
        where = f"- {one.workload}, {one.metric}:"
        if one.verdict == "turns" and one.at is not None:
            interval = f" ({one.low:.0f} to {one.high:.0f})" if one.low and one.high else ""
            yield f"{where} {one.then} is better than {one.first} from {one.at:.0f}{interval} on"
        elif one.verdict == "none":
            yield f"{where} {one.first} is better than {one.then} up to {one.up_to:.0f}"
        elif one.reason.endswith(" on"):
            yield f"{where} {one.first} and {one.then}: {one.reason}"
    undecided = sum(
        one.verdict == "inconclusive" and not one.reason.endswith(" on") for one in found
    )
    if undecided:
        yield f"- {undecided} of {len(found)} are not decided: the report says why"


def page(run: Path) -> str:
    reader = RunReader(run)
    analysis = analyse([reader])
    written: dict[tuple[int, str], list[float]] = defaultdict(list)
    for line in reader.records("conditions"):
        if line["condition"] == "services":
            written[line["count"], line["proxy"]].append(line["seconds"])
    facts, about = analysis.environment, analysis.runs[0]
    conditions = (
        f"`{re.split(' --(?:out|folder)', about.command)[0]}`, {about.started[:10]}, cnibench"
        f" {about.tool_version}: {analysis.results[0].testbed}, Linux {facts['kernel']},"
        f" {facts['cpu_model']}, {facts['cpus']} CPUs, load {facts['load'][0]:.1f} when it started;"
        f" {'' if about.finished else 'not finished, '}{analysis.samples} samples,"
        f" {len(analysis.disturbed)} of them disturbed."
        " Medians of the blocks, with the smallest and the largest."
    )
    lines = [conditions, "", *table(analysis, written)]
    if analysis.turning:
        lines += ["", "Turning points:", "", *_turnings(analysis.turning)]
    return "\n".join(lines)


def main() -> int:
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    made = page(find(sys.argv[1]))
    PAGE.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
