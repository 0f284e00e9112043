"""Which CPUs a pair gets, out of given ones."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cnibench.errors import MeasureError, MissingError
from cnibench.run.checks import cpus
from cnibench.run.checks.cpus import choose_cpus, pins

CORES = {0: 0, 1: 1, 2: 2, 3: 3}
THREADS = {0: 0, 1: 0, 2: 2, 3: 2}


@pytest.mark.parametrize(
    ("how", "allowed", "siblings", "pair", "chosen"),
    [
        ("none", [0], CORES, 0, (None, None)),
        ("shared", [0, 1, 2, 3], CORES, 0, (3, 3)),
        ("shared", [0, 1, 2, 3], CORES, 1, (2, 2)),
        ("shared", [3, 0, 2, 1], CORES, 3, (0, 0)),
        ("shared", [0, 1, 2, 3], CORES, 4, (3, 3)),
        ("shared", [7], {}, 5, (7, 7)),
        ("split", [0, 1, 2, 3], CORES, 0, (2, 3)),
        ("split", [0, 1, 2, 3], CORES, 1, (0, 1)),
        ("split", [0, 1, 2, 3], CORES, 2, (2, 3)),
        ("split", [0, 1, 2], CORES, 1, (2, 0)),
        # Two threads of one core only where there is no other core.
        ("split", [0, 1, 2, 3], THREADS, 0, (1, 3)),
        ("split", [0, 1, 2, 3], THREADS, 1, (0, 2)),
        ("split", [2, 3], THREADS, 0, (2, 3)),
        ("split", [2, 3], {}, 0, (2, 3)),
        ("split", [2, 3], {2: 3}, 0, (2, 3)),
        ("split", [1, 2, 3], {2: 3}, 0, (1, 3)),
        ("split", [1, 2, 3], {3: 2}, 0, (1, 3)),
    ],
)
def test_the_cpus_of_a_pair(
    how: str,
    allowed: Sequence[int],
    siblings: Mapping[int, int],
    pair: int,
    chosen: tuple[int | None, int | None],
) -> None:
    assert choose_cpus(how, allowed, siblings, pair) == chosen
    if pair == 0:
        assert choose_cpus(how, allowed, siblings) == chosen


def test_one_cpu_cannot_be_split() -> None:
    with pytest.raises(MissingError) as error:
        choose_cpus("split", [3], CORES)
    assert error.value.remedy == "use --cpus shared"


def _node(answer: str) -> Any:
    """A node whose Python is asked, with nothing of its environment, and answers that."""

    def run(argv: list[str], timeout: float) -> SimpleNamespace:
        assert argv[:4] == ["python-of-node", "-I", "-S", "-c"]
        assert "sched_getaffinity(0)" in argv[4]
        assert timeout == 30.0
        return SimpleNamespace(stdout=answer)

    return SimpleNamespace(python="python-of-node", run=run)


def test_pairs_on_other_machines_get_cpus_that_all_of_them_have() -> None:
    assert pins("shared", 2, [_node("0 1 2 10\n"), _node("10 2 3\n")]) == [(10, 10), (2, 2)]
    assert pins("split", 1, [_node("0 1")]) == [(0, 1)]
    assert pins("none", 2, [_node("")]) == [(None, None)] * 2
    with pytest.raises(MissingError) as error:
        pins("shared", 1, [_node("0"), _node("1")])
    assert error.value.remedy == "use --cpus none"


def test_pairs_on_this_machine_get_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {4, 5, 6, 7} if pid == 0 else set())
    monkeypatch.setattr(cpus, "cores", lambda: {4: 4, 5: 4, 6: 6, 7: 6})
    assert pins("split", 3) == [(5, 7), (4, 6), (5, 7)]  # no CPU twice before all have a pair
    assert pins("shared", 1, ()) == [(7, 7)]
    assert pins("shared", 0) == []


def test_threads_of_a_core_are_known_by_their_lowest_cpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for cpu, text in {0: "0,4\n", 1: "1-2\n", 2: "1-2\n", 3: "3", 4: "0,4\n"}.items():
        folder = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(text)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3, 4, 9} - {pid})
    monkeypatch.setattr(cpus, "Path", lambda path: tmp_path / path.lstrip("/"))
    assert cpus.cores() == {1: 1, 2: 1, 3: 3, 4: 0}  # nothing is said of 9


@pytest.mark.parametrize(
    ("pinned", "siblings", "said"),
    [
        ([(None, None)], {}, ""),
        ([(3, 3), (2, 2)], {}, ""),
        ([(2, 3), (0, 1)], CORES, ""),
        ([(1, 3)], THREADS, ""),
        ([(2, 3)], THREADS, "on two threads of one core"),
        ([(1, 3), (2, 3)], THREADS, "on two threads of one core"),
        ([(2, 3)], {3: 3}, "is not known here"),
        ([(2, 3)], {2: 2}, "is not known here"),
    ],
)
def test_client_and_server_that_may_share_a_core_are_named(
    pinned: list[tuple[int | None, int | None]], siblings: Mapping[int, int], said: str
) -> None:
    found = cpus.doubts(pinned, siblings)
    assert len(found) == bool(said)
    assert all(said in one for one in found)


class _Clock:
    """``allowed`` has the CPUs that a program may use at each look; None: it has ended."""

    def __init__(self, *allowed: set[int] | None) -> None:
        self.allowed, self.now, self.pids = list(allowed), 100.0, set[int]()

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert 0 < seconds < 0.1
        self.now += cpus._PINNED

    def sched_getaffinity(self, pid: int) -> set[int]:
        self.pids.add(pid)
        found = self.allowed.pop(0)
        if found is None:
            raise ProcessLookupError
        return found


def test_a_program_is_given_time_to_pin_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def checked(*allowed: set[int] | None) -> _Clock:
        clock = _Clock(*allowed)
        monkeypatch.setattr(cpus, "time", clock)
        monkeypatch.setattr(cpus, "os", clock)
        cpus.check_pinned(77, 3, "its client")
        assert (clock.pids, clock.allowed) == ({77}, [])
        return clock

    assert checked({3}).now == 100.0
    checked({0, 1, 3}, {3})
    checked({3, 4}, None)
    with pytest.raises(MeasureError) as error:
        checked({0}, {1, 0}, {10, 2, 3})
    assert error.value.message == ("its client may run on the CPUs 2, 3, 10, and 3 was asked for")
    assert "--cpus none" in error.value.remedy


def test_every_cpu_of_this_machine_has_a_core() -> None:
    found = cpus.cores()
    assert found.keys() <= os.sched_getaffinity(0)
    assert all(core <= cpu for cpu, core in found.items())
