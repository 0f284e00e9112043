"""Disturbed samples in words: how many, which, why, and which cells they leave without a figure."""

from __future__ import annotations

from collections.abc import Sequence

from cnibench.analysis.model import Analysis, Disturbed, Where
from cnibench.analysis.text.places import describe

_TOLD = 3  # in the summary; the report's table has all


def summary(analysis: Analysis) -> list[str]:
    """The first sentences of a report with disturbed samples; none without."""
    found = analysis.disturbed
    if not found:
        return []
    told = [f"{_place(one)}, block {one.block + 1}: {one.reason}" for one in found[:_TOLD]]
    more = f"; and {len(found) - _TOLD} more" if len(found) > _TOLD else ""
    are = "sample was" if analysis.samples == 1 else "samples were"
    text = (
        f"Disturbed: {len(found)} of {analysis.samples} {are} disturbed and not used:"
        f" {'; '.join(told)}{more}."
    )
    alone = list(dict.fromkeys(_place(one) for one in found if one.alone))
    if alone:
        text += f" For these there is no figure: {'; '.join(alone)}."
    return [text]


def rows(found: Sequence[Disturbed]) -> list[list[str]]:
    """Profile, where, block, reason of each."""
    return [
        [one.label, _place(one).removeprefix(f"{one.label}, "), str(one.block + 1), one.reason]
        for one in found
    ]


def _place(one: Disturbed) -> str:
    where = Where(
        placement=one.placement,
        path=one.path,
        workload=one.workload,
        params=one.params,
        ip=one.ip,
        mtu=one.mtu,
        cpus="",
        pair=one.pair,
        metric="",
        unit="",
        better="",
        testbed="",
        wire="",
        wire_offload="",
    )
    params = " ".join(f"{key}={value}" for key, value in one.params.items())
    cycles = " with perf" if one.window == "cpp" else ""
    return f"{one.label}, {describe(where)}{cycles}{f' [{params}]' if params else ''}"
