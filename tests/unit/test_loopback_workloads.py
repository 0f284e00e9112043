"""The workloads' machinery on this machine's own loopback: real tools, no privileges."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cnibench.errors import ClusterError, LimitError, MeasureError
from cnibench.model.cell import Cell
from cnibench.registry import provider
from cnibench.run.sample_context import SampleContext
from cnibench.system import process as programs
from cnibench.testbed.deployment import Deployment
from cnibench.testbed.place import Node, Pod
from cnibench.workloads import _common


class Loopback(Node, Pod):
    """This machine as a Pod without a device of its own."""

    name = "loopback"
    addresses = {4: "127.0.0.1", 6: "::1"}
    interface = ""

    def __init__(self) -> None:
        self.node = self

    def spawn(
        self, argv: Sequence[str], *, stdout: Path | None = None, stderr: Path | None = None
    ) -> programs.Process:
        return programs.spawn(argv, stdout=stdout, stderr=stderr)

    def run(
        self, argv: Sequence[str], *, timeout: float, input: str | None = None, check: bool = True
    ) -> programs.Done:
        return programs.run(argv, timeout=timeout, input=input, check=check)

    def entered(self) -> AbstractContextManager[None]:
        return nullcontext()

    def read_text(self, path: str) -> str:
        try:
            return Path(path).read_text()
        except OSError as error:
            raise ClusterError(str(error)) from None


def context(
    workload: str, raw: Path, pair: int, warmup: float = 0.0, ip: int = 4, **params: Any
) -> SampleContext:
    """``pair`` sets the ports apart from those of other tests that run now."""
    here = Loopback()
    cell = Cell(
        label="here",
        profile="here",
        placement="intra",
        workload=workload,
        ip=ip,
        pair=pair,
        params=provider("workloads", workload).params(params),
    )
    deployment = cast(Deployment, SimpleNamespace())
    return SampleContext(
        cell=cell,
        block=0,
        deployment=deployment,
        client=here,
        server=here,
        duration=0.5,
        warmup=warmup,
        raw=raw,
        client_cpu=None,
        server_cpu=None,
    )


def test_half_a_second_is_not_0(tmp_path: Path) -> None:
    """For netperf, 0 s is for ever."""
    tool: Any = provider("workloads", "tcp-rr")
    command = tool.command(context("tcp-rr", tmp_path, 0), 0.5)
    assert command[command.index("-l") + 1] == "1"


@pytest.mark.parametrize("package", ["workloads", "collectors"])
def test_nothing_in_a_raw_folder_is_written_for_everybody(package: str) -> None:
    """The files of workloads that need a cluster: all of them go through write_private."""
    folder = Path(_common.__file__).parents[1] / package
    found = {
        file.name: words
        for file in folder.glob("*.py")
        if (words := re.findall(r"\.write_(?:text|bytes)\(", file.read_text()))
    }
    assert not found


def test_a_port_that_is_taken_is_a_failure_with_its_reason(tmp_path: Path) -> None:
    tested = provider("workloads", "http")
    one, two = (
        context("http", tmp_path / "1", 703, payload=1000),
        context("http", tmp_path / "2", 703, payload=1000),
    )
    one.raw.mkdir()
    two.raw.mkdir()
    with tested.serve(one), pytest.raises(MeasureError, match="in use"), tested.serve(two):
        pass


def test_a_warm_up_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(MeasureError, match=r"warm-up failed: .*netserver"):
        provider("workloads", "tcp-rr").warm_up(context("tcp-rr", tmp_path, 704, warmup=1))


@pytest.mark.parametrize(
    ("workload", "params"),
    [
        ("tcp-rr", {}),
        ("tcp-stream", {}),
        ("udp-stream", {}),
        ("iperf3-tcp", {}),
        ("http", {"payload": 1000}),
    ],
)
def test_a_tenth_of_a_second_is_no_whole_one(
    workload: str, params: dict[str, Any], tmp_path: Path
) -> None:
    """And the server serves the measured client after it."""
    tested = provider("workloads", workload)
    here = context(workload, tmp_path, 706, warmup=0.1, **params)
    with tested.serve(here):
        began = time.monotonic()
        tested.warm_up(here)
        warm = time.monotonic()
        with tested.start(here) as client:  # of half a second, which the tools make a whole one
            assert client.wait(30) == 0
    assert warm - began < time.monotonic() - warm
    assert tested.seconds(here.cell.params, 1.0, 0.1) == 1.1


def test_a_warm_up_of_connections_takes_a_whole_second(tmp_path: Path) -> None:
    """netserver would wait some seconds for the next one."""
    tested = provider("workloads", "tcp-crr")
    assert tested.seconds({}, 1.0, 0.1) == 2.0
    assert tested.seconds({}, 1.0, 0.0) == 1.0
    here = context("tcp-crr", tmp_path, 707, warmup=0.1)
    with tested.serve(here):
        tested.warm_up(here)
    assert "timeout" not in (tmp_path / "commands.json").read_text()


def test_no_warm_up_is_none(tmp_path: Path) -> None:
    for name in ("tcp-rr", "iperf3-tcp", "http"):
        provider("workloads", name).warm_up(context(name, tmp_path, 705))
    assert not list(tmp_path.iterdir())


def test_a_server_that_never_listens_reaches_the_limit(tmp_path: Path) -> None:
    here = Loopback()
    with here.spawn(["sleep", "30"]) as server, pytest.raises(LimitError, match="did not listen"):
        _common.wait_listening(here, 1, 4, server, tmp_path / "none", limit=0.1)


def test_a_server_that_ends_at_once_is_a_failure(tmp_path: Path) -> None:
    here = Loopback()
    err = tmp_path / "err"
    with (
        here.spawn(["sh", "-c", "echo no such device >&2; exit 3"], stderr=err) as server,
        pytest.raises(MeasureError, match="no such device"),
    ):
        _common.wait_listening(here, 1, 4, server, err)


def test_a_server_that_fails_meanwhile_fails_the_cell(tmp_path: Path) -> None:
    s = context("iperf3-tcp", tmp_path, 706)
    with (  # noqa: PT012
        pytest.raises(MeasureError, match="during the measurement"),
        _common.serving(s, ["iperf3", "-s", "-B", "127.0.0.1", "-p", "5990"], 5990) as server,
    ):
        server.interrupt()
        server.wait(10)


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ("tcp-rr", ["-K", "reno,reno"]),
        ("iperf3-tcp", ["-C", "reno"]),
        ("udp-stream", []),
        ("iperf3-udp", []),
    ],
)
def test_pods_ask_for_the_congestion_control_themselves(
    tmp_path: Path, workload: str, words: list[str]
) -> None:
    """On a cluster nothing else can; in the lab the routes do."""
    s = replace(context(workload, tmp_path, 0), congestion_control="reno")
    tool: Any = provider("workloads", workload)
    more = (5201,) if workload.startswith("iperf3") else ()
    assert not {"-K", "-C"} & set(tool.command(s, 1.0, *more))
    far = Loopback()
    far.of_lab = False  # type: ignore[misc]
    command = tool.command(replace(s, client=far), 1.0, *more)
    asked = [word for i, word in enumerate(command) if {"-K", "-C"} & {word, command[i - 1]}]
    assert asked == words
