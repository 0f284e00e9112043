"""Which CPUs client and server are pinned to: this machine's, or those that other machines have in
common.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cnibench.errors import MissingError
from cnibench.model.profile import Profile
from cnibench.run.checks.cpus import choose_cpus, pins
from cnibench.rundir.reader import RunReader
from cnibench.rundir.writer import RunWriter
from cnibench.testbed.cluster import Options
from cnibench.testbed.place import Node
from tests.unit._local_cluster import HereNode, Local, LocalDeployment, cell, manifest, runner


def machine(folder: Path, cpus: Sequence[int]) -> Node:
    """A node whose interpreter says that programs may use those CPUs."""
    path = folder / f"python-{'-'.join(map(str, cpus))}"
    path.write_text(f"#!/bin/sh\necho {' '.join(map(str, cpus))}\n")
    path.chmod(0o755)
    return type("Machine", (HereNode,), {"python": str(path)})()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("cpus", "allowed", "siblings", "chosen"),
    [
        ("none", [0, 1], {}, (None, None)),
        ("shared", [0, 1], {}, (1, 1)),
        ("split", [0, 1], {}, (0, 1)),
        ("split", [2, 3, 6, 7], {2: 2, 6: 2, 3: 3, 7: 3}, (6, 7)),
        ("split", [0, 1, 2, 3], {0: 0, 1: 0, 2: 2, 3: 2}, (1, 3)),
        ("shared", [4], {4: 4}, (4, 4)),
    ],
)
def test_cpus_are_chosen_from_the_high_end_and_on_two_cores(
    cpus: str, allowed: list[int], siblings: dict[int, int], chosen: Any
) -> None:
    assert choose_cpus(cpus, allowed, siblings) == chosen


@pytest.mark.parametrize(
    ("cpus", "nodes", "chosen"),
    [
        ("shared", [range(4), range(4)], [(3, 3), (2, 2)]),
        ("split", [range(4), range(4)], [(2, 3), (0, 1)]),
        ("shared", [range(16), range(4)], [(3, 3), (2, 2)]),
        ("shared", [[1, 3, 5], [0, 1, 2, 3], range(8)], [(3, 3), (1, 1)]),
        ("none", [[0], [1]], [(None, None)] * 2),
    ],
)
def test_other_machines_are_pinned_by_the_cpus_that_all_of_them_have(
    tmp_path: Path, cpus: str, nodes: list[Sequence[int]], chosen: list[tuple[int, int]]
) -> None:
    assert pins(cpus, 2, [machine(tmp_path, one) for one in nodes]) == chosen


def test_too_few_cpus_in_common_are_said_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="no CPU number that every node has"):
        pins("shared", 1, [machine(tmp_path, [0]), machine(tmp_path, [1])])
    with pytest.raises(MissingError, match="needs two CPUs"):
        pins("split", 1, [machine(tmp_path, [0, 1]), machine(tmp_path, [1])])


def test_a_node_is_asked_as_its_own_kernel_answers() -> None:
    allowed = sorted(os.sched_getaffinity(0))
    assert (
        pins("shared", 1, [HereNode(), HereNode()])
        == pins("shared", 1)
        == [(allowed[-1], allowed[-1])]
    )


def test_a_run_on_other_machines_asks_them_when_a_profile_stands(tmp_path: Path) -> None:
    """The client really runs there: on the one CPU that its node has."""
    only = min(os.sched_getaffinity(0))

    class Deployment(LocalDeployment):
        def nodes(self) -> tuple[Node, ...]:
            return (machine(tmp_path, [only]),)

    class Remote(Local):
        manages_nodes = False

        def install(self, label: str, profile: Profile) -> Deployment:
            return Deployment(self, label, profile)

    with RunWriter.create(tmp_path / "run", manifest([cell("a")], 1)) as writer:
        assert runner(writer, Remote(Options()), cpus=[(None, None)]).run() == 0
    told = json.loads((RunReader(tmp_path / "run").raw(cell("a"), 0) / "cmd.json").read_text())
    assert told["argv"][:3] == ["taskset", "-c", str(only)]
