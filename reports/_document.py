"""A report as headings, paragraphs and tables, before any format: what text and Markdown both
show.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from cnibench.analysis.model import Analysis, Cpp, Failure, Group, Pair, Result, Turning
from cnibench.analysis.text.disturbances import rows
from cnibench.analysis.text.narrative import conditions, place_of, primary_groups
from cnibench.analysis.text.places import describe
from cnibench.model import context
from cnibench.model.metrics import METRICS
from cnibench.reports._numbers import Scale, p_value

_ASIDE = ("packets",)  # metrics of little use at a glance: files have them, the terminal does not
# samples of perf: an interval (95 %) of a share of one half is then three percent of the total wide
# each way
_FEW = 1000
_SMALL = 0.01  # a component below this share of every total is added to the others


@dataclass(frozen=True)
class Table:
    """Plain, unescaped text; the first column is the name, the others are numbers when
    ``numbers``.
    """

    heads: list[str]
    rows: list[list[str]]
    numbers: bool = True


@dataclass(frozen=True)
class Section:
    title: str
    tables: list[Table] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Document:
    title: str
    conditions: list[str]
    summary: list[str]
    sections: list[Section]


def document(analysis: Analysis, *, whole: bool) -> Document:
    """``whole``: with every attestation and fact of the environment, as a file has room for; else
    as much as a terminal bears.
    """
    sections = [_place(analysis, group, whole) for group in primary_groups(analysis)]
    sections += _turning(analysis)
    sections += _cycles(analysis)
    sections += _attested(analysis, whole)
    sections += _failed(analysis)
    sections += _disturbed(analysis)
    if analysis.notes:
        sections.append(Section("Notes", lines=list(analysis.notes)))
    sections += _environment(analysis, whole)
    names = ", ".join(run.name or run.id for run in analysis.runs)
    return Document(f"cnibench report: {names}", conditions(analysis), analysis.summary, sections)


def ratio(pair: Pair | None, label: str) -> str:
    """``label`` against the other one of the pair: the ratio with its interval, or why there is
    none.
    """
    if pair is None:
        return ""
    if pair.exact:
        other = pair.ratio if pair.ratio is None or pair.a == label else 1 / pair.ratio
        better = (pair.verdict == "a-better") == (pair.a == label)
        return (
            f"{other:.3f} (counted)"
            if other is not None
            else f"{'better' if better else 'worse'} (counted)"
        )
    if pair.verdict == "inconclusive":
        return f"? (n={pair.n}, needs {pair.blocks_needed})"
    if pair.verdict == "no-difference-found":
        return f"~ (p={p_value(pair.p_holm)} n={pair.n})"
    if pair.ratio is None or pair.ci_low is None or pair.ci_high is None:
        better = (pair.verdict == "a-better") == (pair.a == label)
        return f"{'better' if better else 'worse'} (p={p_value(pair.p_holm)} n={pair.n})"
    if pair.a == label:
        return f"{pair.ratio:.3f} [{pair.ci_low:.3f}, {pair.ci_high:.3f}]"
    return f"{1 / pair.ratio:.3f} [{1 / pair.ci_high:.3f}, {1 / pair.ci_low:.3f}]"


def against(analysis: Analysis, group: Group) -> tuple[str, dict[str, Pair]]:
    """(the label that ratios of this group refer to, label to its pair with it)."""
    base = analysis.baseline if analysis.baseline in group.letters else group.order[0][0]
    place = place_of(group)
    found = {}
    for pair in analysis.pairs:
        if (
            base in (pair.a, pair.b)
            and pair.metric == group.metric
            and pair.reading == group.reading
            and place_of(pair) == place
        ):
            found[pair.b if pair.a == base else pair.a] = pair
    return base, found


def _place(analysis: Analysis, group: Group, whole: bool) -> Section:
    place = place_of(group)
    here = [result for result in analysis.results if place_of(result) == place]
    main = [result for result in here if result.metric == group.metric and not result.reading]
    main.sort(key=lambda result: result.median, reverse=group.better == "higher")
    scale = Scale.of([result.median for result in main], group.unit)
    base, pairs = against(analysis, group)
    rows = []
    for result in main:
        interval = (
            "-"
            if result.ci_low is None or result.ci_high is None
            else f"{scale(result.ci_low)} to {scale(result.ci_high)}"
        )
        versus = (
            "1 (baseline)" if result.label == base else ratio(pairs.get(result.label), result.label)
        )
        rows.append(
            [
                result.label,
                scale(result.median),
                scale(result.mean),
                interval,
                str(result.n),
                versus,
                group.letters[result.label],
            ]
        )
    heads = ["profile", "median", "mean", _percent(main), "n", f"ratio to {base}", "group"]
    if group.failed:  # never a ranking without them
        rows += [
            [label, *["-"] * 3, "0", "-", "-"]
            for label in group.failed
            if label not in group.letters
        ]
        heads.append("failed")
        rows = [
            [*row, "{} of {}".format(*group.failed[row[0]]) if row[0] in group.failed else "-"]
            for row in rows
        ]
    params = " ".join(f"{key}={_value(value)}" for key, value in group.params.items())
    title = f"{describe(group)}: {_title(group.metric)}{scale.heading()}"
    lines = ["; ".join(filter(None, (*context.told(group), _fidelity(main), params)))]
    lines.append(
        f"{'more' if group.better == 'higher' else 'less'} is better; profiles that share a letter"
        " are not significantly different"
    )
    return Section(title, [Table(heads, rows), *_others(here, group, main, whole)], lines)


def _fidelity(results: Sequence[Result]) -> str:
    """``fidelity datapath-model``; with the names where it differs from label to label."""
    kinds: dict[str, list[str]] = {}
    for result in results:
        kinds.setdefault(result.fidelity, []).append(result.label)
    if len(kinds) == 1:
        return f"fidelity {next(iter(kinds))}"
    most = max(kinds, key=lambda kind: len(kinds[kind]))
    return f"fidelity {most}, but " + ", ".join(
        f"{kind} for {' and '.join(labels)}" for kind, labels in kinds.items() if kind != most
    )


def _percent(results: Sequence[Result]) -> str:
    """The least coverage among the intervals, in the head of their column."""
    known = [result.confidence for result in results if result.confidence is not None]
    return f"{int(1000 * min(known)) / 10:g}% CI" if known else "CI"


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _title(metric: str) -> str:
    return METRICS[metric].title if metric in METRICS else metric


def _others(
    here: Sequence[Result], group: Group, main: Sequence[Result], whole: bool
) -> list[Table]:
    """The medians of the place's other metrics, one column each; but for ``whole`` only what all
    labels have in common (a tunnel device, say, has another name in each profile)."""
    columns: dict[tuple[str, str], list[Result]] = {}
    for result in here:
        if result.metric != group.metric or result.reading:
            reading = " ".join(f"{key}={_value(value)}" for key, value in result.reading.items())
            columns.setdefault((result.metric, reading), []).append(result)
    if not whole:
        columns = {
            key: found
            for key, found in columns.items()
            if key[0] not in _ASIDE and (not key[1] or len(found) == len(main))
        }
    if not columns:
        return []
    heads, cells = ["medians"], []
    for (metric, reading), results in columns.items():
        scale = Scale.of([result.median for result in results], results[0].unit)
        source = (
            " (estimated)" if any(result.cycles_source == "estimated" for result in results) else ""
        )
        heads.append(f"{_title(metric)}{source}{f' {reading}' if reading else ''}{scale.heading()}")
        cells.append({result.label: scale(result.median) for result in results})
    return [
        Table(
            heads,
            [
                [result.label, *(column.get(result.label, "-") for column in cells)]
                for result in main
            ],
        )
    ]


def _cycles(analysis: Analysis) -> list[Section]:
    found: dict[tuple[object, ...], list[Cpp]] = {}
    for row in analysis.cpp:
        key = (row.environment, context.key(msgspec.structs.asdict(row), context.OF_RECORD))
        found.setdefault(key, []).append(row)
    return [_cycles_of(rows) for rows in found.values()]


def _cycles_of(rows: Sequence[Cpp]) -> Section:
    first = rows[0]
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
    sources = ", ".join(dict.fromkeys(row.cycles_source for row in rows))
    where = f"{first.workload}, {first.placement}" + (
        f", path {first.path}" if first.path != "pod" else ""
    )
    lines = [
        f"cycles: {sources}, without idle; components, unclassified and others add up to the total"
    ]
    if small:
        lines.append(f"others: {', '.join(small)}")
    if few := [row for row in rows if 0 < row.counted < _FEW]:
        told = ", ".join(
            f"{row.label} {row.counted} (±{100 / row.counted**0.5:.0f} %)" for row in few
        )
        lines.append(f"few samples (uncertainty of a share, in percent of the total): {told}")
    return Section(f"cycles per packet by component: {where}", [Table(heads, table)], lines)


def _turning(analysis: Analysis) -> list[Section]:
    """Where two profiles change places while a parameter grows; where they do not, up to which
    value that was seen.
    """
    if not analysis.turning:
        return []
    rows = []
    for item in analysis.turning:
        params = " ".join(f"{key}={_value(value)}" for key, value in item.params.items())
        where = (
            f"{item.workload} {item.placement}"
            + (f" IPv{item.ip}" if item.ip != 4 else "")
            + (f" {params}" if params else "")
        )
        rows.append([item.first, item.then, where, item.swept, turning_words(item), str(item.n)])
    heads = ["better at first", "against", "where", "swept", "turning point", "n"]
    lines = [
        "the value of the swept parameter at which the second becomes the better one, with its"
        " interval (exact test, inverted)"
    ]
    return [Section("Turning points", [Table(heads, rows, numbers=False)], lines)]


def turning_words(item: Turning) -> str:
    """``180 (120 to 195)``, ``none up to 200``, or why it cannot be said."""
    if item.verdict == "none":
        return f"none up to {item.up_to:g}"
    if item.at is None or item.low is None or item.high is None:
        return f"inconclusive: {item.reason}"
    return f"{item.at:.3g} ({item.low:.3g} to {item.high:.3g})"


def _attested(analysis: Analysis, whole: bool) -> list[Section]:
    if not analysis.attestations:
        return [
            Section(
                "Attestations",
                lines=["none: nothing proves that the datapaths are what the profiles claim"],
            )
        ]
    table = []
    if whole:
        heads = ["profile", "check", "expected", "observed", "passed"]
        table += [
            [
                item.label,
                _check(item.check, item.ip),
                item.expected,
                item.observed,
                "yes" if item.passed else "NO",
            ]
            for item in analysis.attestations
        ]
        return [Section("Attestations", [Table(heads, table, numbers=False)])]
    labels = dict.fromkeys(item.label for item in analysis.attestations)
    lines = []
    for label in labels:
        mine = [item for item in analysis.attestations if item.label == label]
        passed = sum(item.passed for item in mine)
        table.append(
            [
                label,
                f"{passed} of {len(mine)}",
                ", ".join(dict.fromkeys(item.check for item in mine if item.passed)),
            ]
        )
        lines += [
            f"{label}: {item.check}: expected {item.expected}, observed {item.observed}"
            for item in mine
            if not item.passed
        ]
    return [
        Section(
            "Attestations", [Table(["profile", "passed", "checks"], table, numbers=False)], lines
        )
    ]


def _check(check: str, ip: int) -> str:
    return check if ip == 4 else f"{check} (IPv{ip})"


def _failed(analysis: Analysis) -> list[Section]:
    if not analysis.failures:
        return []
    found: dict[tuple[str, str, str, str, str], list[Failure]] = {}
    for item in analysis.failures:
        found.setdefault(
            (item.label, item.placement, item.workload, item.status, item.reason), []
        ).append(item)
    rows = []
    for (label, placement, workload, status, reason), items in found.items():
        where = f"{workload} {placement}".strip() or "everything"
        rows.append([label, where, "-" if items[0].block < 0 else str(len(items)), status, reason])
    return [
        Section(
            "Failed and unsupported",
            [Table(["profile", "where", "samples", "status", "reason"], rows, numbers=False)],
        )
    ]


def _disturbed(analysis: Analysis) -> list[Section]:
    if not analysis.disturbed:
        return []
    lines = [
        "a process or CPU stalled while they were measured; they are stored, but no figure, verdict"
        " or ranking above includes them"
    ]
    return [
        Section(
            "Disturbed samples",
            [
                Table(
                    ["profile", "where", "block", "reason"], rows(analysis.disturbed), numbers=False
                )
            ],
            lines,
        )
    ]


def _environment(analysis: Analysis, whole: bool) -> list[Section]:
    rows = []
    for run in analysis.runs:
        rows += [
            ["run", run.id],
            ["started", run.started],
            ["finished", run.finished or "not finished"],
            ["command", run.command],
        ]
        rows += [["seed", str(run.seed)], ["cnibench", run.tool_version]]
    for environment in analysis.environments[: None if whole else 1]:
        rows += [
            [key, text]
            for key, text in _flat(environment)
            if whole or not isinstance(environment.get(key.split(".")[0]), Mapping | list)
        ]
    return [Section("Run and environment", [Table(["what", "value"], rows, numbers=False)])]


def _flat(facts: Mapping[str, object], prefix: str = "") -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for key, value in facts.items():
        if key == "offload" and isinstance(value, Mapping):
            found += [(f"tunnels of NIC {name}", said) for name, said in nics(value)]
        elif isinstance(value, Mapping):
            found += _flat(value, f"{prefix}{key}.")
        elif key not in ("schema", "tool_version") and value not in ("", None, []):
            found.append((f"{prefix}{key}", _value(value)))
    return found


def nics(facts: Mapping[str, object]) -> list[tuple[str, str]]:
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


def command(analysis: Analysis) -> str:
    """The command that repeats the (first) run, safe to paste."""
    return shlex.join(shlex.split(analysis.run.command)) if analysis.run.command else ""
