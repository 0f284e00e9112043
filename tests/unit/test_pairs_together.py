"""Several pairs at the same time: one window for all, a line for each, all or none; and what is
left of a run's time.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from cnibench.errors import MeasureError
from cnibench.model.cell import Cell
from cnibench.model.profile import Profile
from cnibench.planning.forecast import AROUND, expected_seconds
from cnibench.planning.schedule import by_pairs, order
from cnibench.run.collector import Collector
from cnibench.run.progress import Lines
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.rundir.reader import RunReader
from cnibench.rundir.writer import RunWriter
from cnibench.system.process import Process
from cnibench.testbed.cluster import Options
from tests.unit._local_cluster import Echo, Local, OneByOne, Spy, manifest, profile, runner


def cells(count: int, label: str = "a", **more: Any) -> list[Cell]:
    common = {
        "label": label,
        "profile": "veth",
        "placement": "intra",
        "workload": "echo",
        "params": {"fault": ""},
        **more,
    }
    return [Cell(**common, pair=pair) for pair in range(count)]


class Paired(Echo):
    """Notes when each pair was warmed up and started; ``broken`` is a pair whose client does not
    start.
    """

    broken = -1

    def __init__(self) -> None:
        self.log: list[tuple[str, int]] = []

    def serve(self, s: SampleContext) -> Any:
        self.log.append(("serve", s.cell.pair))
        return super().serve(s)

    def start(self, s: SampleContext) -> Process:
        self.log.append(("start", s.cell.pair))
        if s.cell.pair == self.broken:
            raise MeasureError("no client")
        return super().start(s)


class Machine(Spy):
    """One that reads whole machines."""

    name = "machine"
    of_pair = False


def test_all_pairs_share_a_window_and_each_has_its_lines(folder: Path) -> None:
    both = [*cells(3, duration=2.0), *cells(2, window="cpp")]
    with RunWriter.create(folder, manifest(both, 2)) as writer:
        subject = runner(writer, Local(Options(pairs=3)))
        subject.workloads, subject.collectors = {"echo": (work := Paired())}, [Machine()]
        assert subject.run() == 0
    speed = [pair for what, pair in work.log if what == "start"]
    assert sorted(speed) == sorted([0, 1, 2, 0, 1] * 2)
    first = work.log.index(("serve", 2))
    assert work.log[first - 2 : first + 4] == [
        (what, pair) for what in ("serve", "start") for pair in range(3)
    ], "servers, then clients"
    reader = RunReader(folder)
    rates = [one for one in reader.samples() if one.metric == "transaction_rate"]
    assert sorted((one.block, one.window, one.pair) for one in rates) == sorted(
        [(block, "speed", pair) for block in (0, 1) for pair in range(3)]
        + [(block, "cpp", pair) for block in (0, 1) for pair in range(2)]
    )
    for block in (0, 1):
        together = [one for one in rates if one.block == block and one.window == "speed"]
        assert max(one.start for one in together) < min(one.end for one in together)
        alone = sorted(
            (one.start, one.end) for one in rates if one.block == block and one.window == "cpp"
        )
        assert alone[0][1] < alone[1][0], "a machine's cycles cannot be told apart by pairs"
    machine = [
        one.pair for one in reader.samples() if one.metric == "packets" and one.window == "speed"
    ]
    assert machine == [0, 0], "read once"
    assert reader.finished


def test_what_goes_wrong_with_one_pair_goes_wrong_with_all(folder: Path) -> None:
    with RunWriter.create(folder, manifest(cells(2), 1)) as writer:
        subject = runner(writer, Local(Options()))
        subject.workloads = {"echo": (work := Paired())}
        work.broken = 1
        assert subject.run() == 2
    samples = list(RunReader(folder).samples())
    assert [(one.pair, one.status) for one in samples] == [(0, "failed"), (1, "failed")]
    assert {one.reason for one in samples} == {"pair 1, of 2 at the same time: no client"}


def test_pairs_follow_each_other_in_every_order_and_count_once() -> None:
    mixed = [*cells(3), *cells(3, "b"), *cells(3, placement="inter")]
    for seed in range(5):
        groups = list(by_pairs(order(mixed, 0, seed)))
        assert [[cell.pair for cell in group] for group in groups] == [[0, 1, 2]] * 3
    assert order(cells(1), 0, 1) == cells(1)
    work: Any = {"echo": Echo()}
    assert expected_seconds(cells(3), work, 10.0, 2.0) == pytest.approx(12.0 + AROUND)
    three = pytest.approx(3 * (12.0 + AROUND))
    assert expected_seconds(cells(3, window="cpp"), work, 10.0, 2.0) == three
    counting: Any = {"echo": type("Counting", (Echo,), {"several": False})()}
    assert expected_seconds(cells(3), counting, 10.0, 2.0) == three


@pytest.mark.parametrize(
    ("pairs", "late", "said"),
    [
        (2, 0.2, "took most of their window"),
        (1, 1.1, "the workload ended before the collectors started"),
    ],
    ids=["many pairs", "after its client"],
)
def test_a_window_that_comes_too_late_is_reported(
    folder: Path, pairs: int, late: float, said: str
) -> None:
    class Late(Collector):
        name = title = "late"

        def observe(self, s: SampleContext, into: Measurements) -> Any:
            time.sleep(late)
            return Spy().observe(s, into)

    with RunWriter.create(folder, manifest(cells(pairs), 1)) as writer:
        subject = runner(writer, Local(Options()))
        subject.collectors = [Late()]
        assert subject.run() == pairs
    assert said in next(RunReader(folder).samples()).reason


def test_installing_is_part_of_the_time_that_is_left(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With 60 s for each of three installations, the first sample of 0.2 s does not stretch the
    rest to minutes.
    """

    class Dear(OneByOne):
        def seconds(self, profile: Profile) -> float:
            return 60.0

    with RunWriter.create(folder, manifest(cells(1), 3)) as writer:
        assert runner(writer, Dear(Options()), progress=Lines()).run() == 0
    said = capsys.readouterr().err
    assert "3 samples, about 3 min" in said
    left = [line for line in said.splitlines() if line.endswith("left")]
    assert len(left) == 3
    assert not any("min" in line for line in left), left
    assert profile().name == "veth"
