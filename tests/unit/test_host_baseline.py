"""Profiles that stood one after the other are compared by their ratio to the host network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cnibench.analysis import analyse
from cnibench.analysis.build import contexts_of
from cnibench.analysis.comparison.host_baseline import LACKING, NOTE, to_host
from cnibench.rundir.reader import RunReader
from tests.unit._runs import edited, synthetic


def run(folder: Path, **more: Any) -> RunReader:
    """The machine had half of its speed whenever b stood: the host network shows that. What is
    measured there are the lines of inter in ``synthetic``.
    """

    def edit(line: dict[str, Any]) -> dict[str, Any]:
        if line["placement"] == "inter":
            line |= {"placement": "intra", "path": "host"}
        return line | {"testbed": "cluster", "method": "slices"} | more

    return edited(synthetic(folder, {"a": 1.0, "b": 0.5}, cpp=False, workloads=("tcp-rr",)), edit)


def ratio(reader: RunReader, path: str) -> tuple[float, list[str]]:
    analysis = analyse([reader])
    (pair,) = [
        one for one in analysis.pairs if one.metric == "transaction_rate" and one.path == path
    ]
    return pair.ratio, analysis.notes


def test_the_speed_of_the_machine_is_taken_off(tmp_path: Path) -> None:
    reader = run(tmp_path)
    found, notes = ratio(reader, "pod")
    assert found == pytest.approx(1.0, abs=0.05)
    assert NOTE in notes


def test_the_host_network_is_a_baseline_and_no_contender(tmp_path: Path) -> None:
    reader = run(tmp_path)
    analysis = analyse([reader])
    assert {one.path for one in analysis.results} == {"pod", "host"}
    assert {one.path for one in analysis.pairs} == {"pod"}
    assert {one.path for one in analysis.groups} == {"pod"}
    assert {one.where["path"] for one in to_host(contexts_of(reader))[0]} == {"pod"}
    assert {one.where["path"] for one in contexts_of(reader)} == {"pod", "host"}  # of a gate


@pytest.mark.parametrize("more", [{"testbed": "kind"}, {"method": "windows"}])
def test_profiles_that_stood_together_are_compared_as_they_are(
    tmp_path: Path, more: dict[str, str]
) -> None:
    found, notes = ratio(run(tmp_path, **more), "pod")
    assert abs(found - 1) > 0.4
    assert NOTE not in notes


def test_values_without_the_host_network_in_their_block_are_not_compared(tmp_path: Path) -> None:
    def edit(line: dict[str, Any]) -> dict[str, Any]:
        if line["path"] == "host" and line["block"] < 2:
            line |= {"status": "failed", "value": None, "reason": "gone"}
        return line

    analysis = analyse([edited(run(tmp_path), edit)])
    (pair,) = [
        one for one in analysis.pairs if one.metric == "transaction_rate" and one.path == "pod"
    ]
    assert pair.n == 10


def test_profiles_without_the_host_network_are_not_compared(tmp_path: Path) -> None:
    """As measured b has half the speed of a, which is the machine's and not the profile's."""

    def edit(line: dict[str, Any]) -> dict[str, Any]:
        if line["path"] == "host" and line["label"] == "b":
            line |= {"status": "failed", "value": None, "reason": "gone"}
        return line

    reader = edited(run(tmp_path), edit)
    analysis = analyse([reader])
    assert analysis.pairs == []
    assert {one.label for one in analysis.results if one.path == "pod"} == {"a", "b"}
    assert LACKING in analysis.notes
    assert NOTE not in analysis.notes
    assert "nothing was compared" in " ".join(analysis.summary)


def test_profiles_of_which_only_pods_were_measured_are_not_compared(tmp_path: Path) -> None:
    reader = edited(run(tmp_path), lambda line: line | {"path": "pod"})
    analysis = analyse([reader])
    assert analysis.pairs == []
    assert LACKING in analysis.notes
