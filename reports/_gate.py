"""The verdict of a gate as text, Markdown for a pull request, or JUnit XML."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from cnibench.analysis.gate.notes import Notes
from cnibench.analysis.gate.verdict import Failures, Judged, Verdict
from cnibench.reports import _gate_notes
from cnibench.reports._escape import markdown, plain
from cnibench.reports.document.parts import Table

_WORDS = {0: "within the threshold", 4: "worse", 5: "undecided"}


def table(verdict: Verdict) -> Table:
    """One row a cell, what decided first."""
    rank = {"worse": 0, "missing": 1, "undecided": 2, "within": 3}
    rows = [
        [
            one.outcome,
            one.cell,
            one.metric or "failures",
            _change(one),
            str(one.n),
            _failed(one.base_failures),
            _failed(one.candidate_failures),
        ]
        for one in sorted(verdict.cells, key=lambda one: rank[one.outcome])
    ]
    return Table(
        ["outcome", "cell", "metric", "candidate / base", "n", "base failed", "candidate failed"],
        rows,
        numbers=False,
    )


def _failed(one: Failures) -> str:
    return f"{one.failed} of {one.blocks}"


def _change(one: Judged) -> str:
    if one.ratio is None:
        return "-"
    interval = "" if one.low is None or one.high is None else f" [{one.low:.3f}, {one.high:.3f}]"
    return f"{one.ratio:.3f}{interval}"


def text(verdict: Verdict, problems: Sequence[str] = (), notes: Notes | None = None) -> str:
    """The problems of the run directories, the one-line reason, each cell's, then the notes; all
    but the problems in 80 columns.
    """
    wrapped = _gate_notes.wrapped
    lines = [*(plain(line, 2000) for line in problems), wrapped(verdict.line)]
    lines += [wrapped(f"{one.outcome}: {one.cell}: {one.reason}", 4) for one in verdict.cells]
    return "\n".join([*lines, *_gate_notes.notes(notes or Notes())]) + "\n"


def as_markdown(verdict: Verdict, problems: Sequence[str] = (), notes: Notes | None = None) -> str:
    """A comment for a pull request; the problems of the run directories come first."""
    shown = table(verdict)
    lines = [f"- {markdown(plain(line, 2000))}" for line in problems]
    lines += [""] * bool(problems)
    lines += [
        f"**cnibench: {_WORDS[verdict.exit_code]}**: {markdown(plain(verdict.line, 2000))}",
        "",
    ]
    lines += [f"| {' | '.join(shown.heads)} |", "|---|---|---|---|--:|--:|--:|"]
    lines += [f"| {' | '.join(markdown(cell) for cell in row)} |" for row in shown.rows]
    lines += [
        "",
        *(
            f"- {markdown(plain(f'{one.cell}: {one.reason}', 2000))}"
            for one in verdict.cells
            if _any(one)
        ),
    ]
    lines += ["", f"Threshold {100 * verdict.threshold:.3g} %, compared {verdict.how}."]
    if notes:
        lines += [""] + [
            f"- {markdown(plain(one, 2000))}" for one in _gate_notes.as_markdown(notes)
        ]
        if notes.repeat:
            lines += ["", *(f"    {line}" for line in _commands(notes).splitlines())]
    return "\n".join(lines) + "\n"


def _commands(notes: Notes) -> str:
    return "\n".join(_gate_notes.command(one) for one in notes.repeat)


def _any(one: Judged) -> bool:
    """Did anything fail there, or was disturbed?"""
    return bool(
        one.base_failures.failed
        or one.candidate_failures.failed
        or one.base_disturbed
        or one.candidate_disturbed
    )


def junit(
    verdict: Verdict,
    problems: Sequence[str] = (),
    notes: Notes | None = None,
    *,
    inconclusive: str = "fail",
) -> str:
    """JUnit XML: a cell is a test case, ``worse`` a failure; what could not be decided is an error,
    or skipped if it is only a difference of values and that passes.

    Each of the ``problems`` of the run directories is an error of a test case of its own, which
    comes first. The output of a case (system-out) says what failed or was disturbed on either side,
    that of the suite has the notes.
    """
    tests = str(len(verdict.cells) + len(problems))
    suite = ElementTree.Element("testsuite", name="cnibench compare", tests=tests)
    counts = {"failures": 0, "errors": len(problems), "skipped": 0}
    for number, line in enumerate(problems, 1):
        case = ElementTree.SubElement(
            suite, "testcase", classname="run directories", name=f"problem {number}"
        )
        ElementTree.SubElement(case, "error", message=plain(line, 2000))
    for one in verdict.cells:
        case = ElementTree.SubElement(
            suite, "testcase", classname=plain(one.metric or "failures"), name=plain(one.cell)
        )
        if one.outcome == "within":
            _output(case, one)
            continue
        kind, count = ("failure", "failures") if one.outcome == "worse" else ("error", "errors")
        if one.values_undecided and inconclusive == "pass":
            kind, count = "skipped", "skipped"
        counts[count] += 1
        ElementTree.SubElement(case, kind, message=plain(one.reason, 2000))
        _output(case, one)
    for name, number in counts.items():
        suite.set(name, str(number))
    if notes and (said := _gate_notes.notes(notes)):
        ElementTree.SubElement(suite, "system-out").text = "\n".join(said)
    ElementTree.indent(suite)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        + ElementTree.tostring(suite, encoding="unicode")
        + "\n"
    )


def _output(case: ElementTree.Element, one: Judged) -> None:
    if _any(one):
        ElementTree.SubElement(case, "system-out").text = plain(one.reason, 2000)
