"""Ctrl-C ends a run wherever it comes, also within code that goes on after a failure."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from cnibench.cli.errors import guarded
from cnibench.errors import ClusterError, CnibenchError, Interrupted, MeasureError, MissingError
from cnibench.rundir.reader import RunReader
from cnibench.rundir.writer import RunWriter
from cnibench.system.interrupt import Stop, cleaning_up
from cnibench.testbed.cluster import Options
from tests.unit._local_cluster import Local, LocalDeployment, cell, manifest, measured, runner

pytestmark = pytest.mark.usefixtures("unhurried")


def ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def passed_over(kind: type[BaseException]) -> Callable[[], str]:
    def alive() -> str:
        try:
            ctrl_c()
        except kind:
            pass
        return ""

    return alive


def taken_for_a_failure() -> str:
    try:
        ctrl_c()
    except BaseException:
        raise ClusterError("the node does not answer") from None
    return ""


@pytest.mark.parametrize(
    "alive",
    [
        passed_over(CnibenchError),
        passed_over(Exception),
        passed_over(BaseException),
        taken_for_a_failure,
    ],
    ids=["ours", "a library's", "all", "another error"],
)
def test_whoever_catches_it_the_run_ends(folder: Path, alive: Callable[[], str]) -> None:
    class Deployed(LocalDeployment):
        def alive(self) -> str:
            """Asked when the window is over."""
            return alive()

    cluster = Local(Options())
    cluster.deploys = Deployed
    ended = pytest.raises(Interrupted)
    with RunWriter.create(folder, manifest([cell("a")], 3)) as writer, ended as caught:
        runner(writer, cluster).run()
    assert f"--resume {folder}" in caught.value.remedy
    assert cluster.log[-2:] == ["remove a", "left"]
    assert measured(folder) == [], "the sample is not stored, as a failed one neither"
    assert [event["event"] for event in RunReader(folder).events()][-1] == "run-interrupted"


def test_a_command_says_so_and_ends_with_130(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        with Stop():
            try:
                ctrl_c()
            except Exception:
                return

    assert guarded(work) == 130
    assert "error: interrupted; everything that was made is removed" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [MeasureError, Interrupted])
def test_what_cannot_be_removed_is_added_to_the_failure(
    kind: type[MeasureError | Interrupted],
) -> None:
    failure = kind("the image is absent")
    with cleaning_up(failure):
        raise MissingError("the cluster stays", "kind delete cluster --name x")
    assert failure.message == "the image is absent; then: the cluster stays"
    assert failure.remedy == "kind delete cluster --name x"


def test_what_cannot_be_removed_is_noted_on_a_defect() -> None:
    other = ValueError("a defect")
    with cleaning_up(other):
        raise MissingError("the cluster stays")
    assert other.__notes__ == ["the cluster stays"]


def test_a_signal_cuts_no_clean_up_short() -> None:
    done = []

    def fail() -> None:
        try:
            raise MeasureError("the image is absent")
        except MeasureError as error:
            with cleaning_up(error):
                ctrl_c()
                done.append("removed")
            raise

    with Stop(), pytest.raises(Interrupted):
        fail()
    assert done == ["removed"]


def test_nor_the_end_of_a_cluster() -> None:
    class Removed(Local):
        def __exit__(self, *error: object) -> None:
            ctrl_c()
            super().__exit__(*error)

    cluster = Removed(Options())
    with Stop() as stop, pytest.raises(Interrupted), stop.around(cluster):
        pass
    assert cluster.log == ["left"]
