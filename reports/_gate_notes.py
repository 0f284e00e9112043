"""What a gate says beside its verdict, and its plan, in lines of 80 columns."""

from __future__ import annotations

import math
import shlex
import textwrap
from collections.abc import Sequence

from cnibench.analysis.gate.kernel import Changed
from cnibench.analysis.gate.notes import Notes, Remembered
from cnibench.analysis.gate.planning import GatePlan, Planned
from cnibench.model.units import plural
from cnibench.reports._escape import plain

WIDTH = 80
_OUTCOMES = {0: "within", 4: "worse", 5: "undecided"}


def wrapped(line: str, indent: int = 0) -> str:
    """One paragraph; a single word may be wider than the line, and a number keeps its percent
    sign.
    """
    first = " " * indent
    text = textwrap.fill(
        plain(line, 4000).replace(" %", "\u00a0%"),
        WIDTH,
        initial_indent=first,
        subsequent_indent=first + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return text.replace("\u00a0%", " %")


def notes(found: Notes) -> list[str]:
    """Paragraphs for a terminal, each without its last newline."""
    lines = [wrapped(one) for one in remembered(found.remembered)]
    for change in found.changes:
        lines += [wrapped(_totals(change)), *(wrapped(one, 2) for one in _functions(change))]
    lines += [wrapped(found.without)] * bool(found.without)
    if found.repeat:
        lines += ["To repeat it:", *(command(one) for one in found.repeat)]
    return lines + [wrapped(found.advice)] * bool(found.advice)


def as_markdown(found: Notes) -> list[str]:
    """The same as (unescaped) sentences; the commands as a block are the caller's."""
    lines = remembered(found.remembered)
    for change in found.changes:
        lines.append(f"{_totals(change)} {'; '.join(_functions(change))}".strip())
    return [*lines, *filter(None, (found.without, found.advice))]


def remembered(found: Remembered | None) -> list[str]:
    """What the history adds, in sentences."""
    if found is None:
        return []
    before = ", ".join(_OUTCOMES[one] for one in found.earlier) or "none"
    lines = [
        f"history {found.file}: look {found.look} at this candidate (earlier ones: {before}), with"
        f" {plural(found.runs, 'run')} of it; each test at {_percent(found.level)} one-sided, all"
        f" looks so far together at {_percent(found.spent)}, never above 2.5 %"
    ]
    if not found.stored:
        lines.append("These runs are in the history already: this is no new look.")
    if not found.repeated:
        lines.append(
            "No candidate has several runs here, so how much runs differ is not known: none passes,"
            " and that one is worse holds for this run's blocks. To spend less on looks, name"
            " several runs in one command (RUN1:base,RUN2:base RUN1:candidate,RUN2:candidate)."
        )
    if found.others:
        lines.append(
            f"The history has {plural(found.others, 'look')} at other candidates (another profile,"
            " setting or installation); they only say how much runs differ."
        )
    if found.between:
        low, high, runs = found.between
        spread = _percent(low) if low == high else f"{_percent(low)} to {_percent(high)}"
        lines.append(f"noise of the base between {runs} runs: {spread} (standard deviation)")
    return lines


def _totals(change: Changed) -> str:
    share = f" ({change.candidate / change.base - 1:+.1%})" if change.base else ""
    blocks = f"{change.base_blocks} and {plural(change.candidate_blocks, 'block')}"
    if change.base_blocks == change.candidate_blocks:
        blocks = f"{plural(change.base_blocks, 'block')} each"
    estimated = ", estimated without a PMU" if change.estimated else ""
    return (
        f"cycles per packet, {change.cell}: {change.base:.0f} in the base, {change.candidate:.0f}"
        f"{share} in the candidate (means of {blocks}, not tested{estimated})"
    )


def _functions(change: Changed) -> list[str]:
    return [
        f"{one.name}: {one.base:.1f} to {one.candidate:.1f} ({one.candidate - one.base:+.1f})"
        for one in change.functions
    ]


def command(arguments: Sequence[str]) -> str:
    """A command for a shell, its lines joined by backslashes."""
    lines, room = ["  "], WIDTH - 2
    for word in (shlex.quote(plain(one, 4000)) for one in arguments):
        if len(lines[-1].strip()) and len(lines[-1]) + len(word) + 1 > room:
            lines[-1] += " \\"
            lines.append("      ")
        lines[-1] += ("" if lines[-1].isspace() else " ") + word
    return "\n".join(lines)


def plan(found: GatePlan) -> str:
    """The plan of a gate for a terminal."""
    paragraphs = [wrapped(one) for one in plan_lines(found)]
    return "\n".join([*paragraphs, *(wrapped(_cell(one), 2) for one in found.cells)]) + "\n"


def plan_lines(found: GatePlan) -> list[str]:
    """What the plan says, in sentences, the answer first."""
    limit, twice = 100 * found.threshold, 100 * (1 - (1 - found.threshold) ** 2)
    if not found.cells:
        return ["plan: 1 block: all cells are counted, and alike in every block"]
    cells = f"all {len(found.cells)} cells" if len(found.cells) > 1 else "the one cell"
    if found.repeats:
        runs, blocks = found.repeats
        lines = [
            f"plan: {plural(runs, 'run')} of {plural(blocks, 'block')} of base and candidate each,"
            f" compared in one look, with which an equal candidate passes {cells} with a"
            f" probability of {100 * found.passes:.0f} % ({_percent(found.power)} asked for) if"
            " runs differ no more than their blocks explain"
        ]
    elif found.blocks is None:
        lines = [
            f"plan: more than 1000 blocks: too noisy for a threshold of {limit:.3g} %; use a longer"
            " --duration or a coarser --threshold"
        ]
    else:
        lines = [
            f"plan: {plural(found.blocks, 'block')} of base and candidate in the same run, with"
            f" which an equal candidate passes {cells} with a probability of"
            f" {100 * found.passes:.0f} % ({_percent(found.power)} asked for)"
        ]
    worse = (
        f"One that is {twice:.3g} % worse in one cell is proven worse with a probability"
        f" of {100 * found.finds:.0f} % or more."
        if found.finds
        else "So few blocks cannot prove that a candidate is worse in a single cell."
    )
    lines.append(
        f"One that is {limit:.3g} % worse in any cell passes with a probability of"
        f" {_percent(found.level)} at most."
        f" {worse}"
    )
    if found.blocks is not None:
        lines.append(
            "Measure with --blocks N: without it a run may end when its pairs are decided, and then"
            " its size follows from the differences."
        )
    if found.look > 1 or found.have:
        total = math.prod(found.repeats) if found.repeats else found.blocks or 0
        more = max(0, total - found.have)
        lines.append(
            f"look {found.look} at this candidate: the history has {plural(found.have, 'block')} of"
            f" it" + (f", measure {more} more" if found.blocks else "")
        )
    lines.append(_across(found))
    lines.append(
        "Cells, with the noise of candidate / base from block to block, its upper 80 % limit, with"
        " which the plan is made, and the blocks that the cell alone would need. Noise is taken as"
        " normal, cells as independent."
    )
    return lines


def _across(found: GatePlan) -> str:
    if found.runs:
        base, candidate = found.runs
        return (
            f"Each side in runs of its own: {base} runs of the base ({found.base_runs} are known)"
            f" and {plural(candidate, 'run')} of the candidate, by the noise of the base between"
            " runs."
        )
    if found.base_runs >= 3:
        return "Each side in runs of its own: more than 200 runs, runs of the base differ too much."
    return (
        "Each side in runs of its own: not known, the noise between runs takes 3 runs of the base"
        " (named with commas, or in the history)."
    )


def _cell(one: Planned) -> str:
    alone = "more than 1000" if one.alone is None else str(one.alone)
    between = (
        f"; between {one.runs} runs {_percent(one.between)}" if one.between is not None else ""
    )
    noise = one.noise
    return (
        f"{one.cell}: {_percent(noise.spread)}, limit {_percent(noise.upper)} ({noise.source}),"
        f" {alone} alone{between}"
    )


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.3g} %"
