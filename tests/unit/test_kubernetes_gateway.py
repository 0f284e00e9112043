"""The connection into a Pod, with a process of this machine instead: programs there behave as
programs here, and none outlives it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cnibench.clusters.kubernetes.connection.gateway import Gateway
from cnibench.errors import ClusterError, LimitError, MeasureError, MissingError
from cnibench.system import heartbeat
from cnibench.system import process as programs
from tests.unit._local_stream import Local

LIMIT = 20.0  # s


class Here:
    """Stands in for Access: what would run in the Pod runs here."""

    def __init__(self) -> None:
        self.dropped: list[str] = []
        self.started = 0
        self.slow = 0.0  # s that it takes to start a command

    def start(self, namespace: str, pod: str, argv: Sequence[str], **_: Any) -> Local:
        self.started += 1
        time.sleep(self.slow)
        return Local(argv)

    def hidden(self, text: str) -> str:
        return text


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    made = Gateway(Here(), "space", "pod", "the Pod pod")  # type: ignore[arg-type]
    yield made
    made.close()


def until(condition: Any, what: str) -> None:
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_program_runs_to_its_end(gateway: Gateway) -> None:
    done = gateway.run(
        ["sh", "-c", "cat; echo bad >&2; exit 3"], timeout=LIMIT, input="given", check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "given", "bad\n")
    assert gateway.run(["cat"], timeout=LIMIT, input="x" * 3_000_000).stdout == "x" * 3_000_000
    assert gateway.run(["cat"], timeout=LIMIT, input="").stdout == ""
    with pytest.raises(ClusterError, match="ended with 1"):
        gateway.run(["false"], timeout=LIMIT)
    with pytest.raises(MissingError, match="no-such-program"):
        gateway.run(["no-such-program"], timeout=LIMIT)


def test_threads_that_begin_at_once_share_one_connection() -> None:
    """As the probes of a stranger do, which has not been talked to before."""
    here = Here()
    here.slow = 0.3
    made = Gateway(here, "space", "pod", "the Pod pod")  # type: ignore[arg-type]
    with contextlib.closing(made), ThreadPoolExecutor(max_workers=4) as pool:
        runs = [pool.submit(made.run, ["echo", str(one)], timeout=LIMIT) for one in range(4)]
        assert [one.result().stdout for one in runs] == [f"{one}\n" for one in range(4)]
    assert here.started == 1
    assert here.dropped == []


def test_files_are_read(gateway: Gateway, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    assert gateway.read(str(tmp_path / "file")) == "text"
    assert "Tcp:" in gateway.read("/proc/net/snmp")
    (tmp_path / "empty").write_text("")
    (tmp_path / "umlaut").write_text("ä" * 100_000)
    several = gateway.read_all(
        [str(tmp_path / name) for name in ("file", "empty", "umlaut", "file")]
    )
    assert several == ["text", "", "ä" * 100_000, "text"]
    with pytest.raises(
        ClusterError, match=f"the Pod pod: No such file or directory: {tmp_path}/none"
    ):
        gateway.read_all([str(tmp_path / "file"), str(tmp_path / "none")])


def test_a_background_program_is_heard_while_it_runs_and_whole_at_its_end(
    gateway: Gateway, tmp_path: Path
) -> None:
    out, err = tmp_path / "out", tmp_path / "err"
    script = (
        "trap 'exit 7' INT; echo ready >&2; head -c 3000000 /dev/zero; echo all >&2; while :; do"
        " sleep 0.05; done"
    )
    with gateway.spawn(["sh", "-c", script], out, err) as process:
        until(lambda: err.read_text().startswith("ready\n"), "its first word did not come")
        assert process.poll() is None
        process.watch(0.01)
        until(
            lambda: err.read_text().endswith("all\n"), "its output did not end"
        )  # an interrupt before would end head as well
        process.interrupt()
        assert process.wait(LIMIT) == 7
    assert out.stat().st_size == 3_000_000


def test_a_limit_kills_the_whole_group(gateway: Gateway, tmp_path: Path) -> None:
    with pytest.raises(LimitError, match="within 0 s"):
        gateway.run(["sh", "-c", f"sleep 1000 & echo $! > {tmp_path}/pid; wait"], timeout=0.3)
    until(lambda: not alive(int((tmp_path / "pid").read_text())), "the grandchild lives")


def test_what_runs_there_dies_with_the_connection(gateway: Gateway, tmp_path: Path) -> None:
    for killed in (False, True):
        process = gateway.spawn(
            ["sh", "-c", f"echo $$ > {tmp_path}/pid{killed}; exec sleep 1000"], None, None
        )
        until(
            lambda killed=killed: (
                (tmp_path / f"pid{killed}").exists() and (tmp_path / f"pid{killed}").read_text()
            ),
            "it did not start",
        )
        if killed:
            assert isinstance(gateway._stream, Local)
            os.kill(gateway._stream.pid, signal.SIGKILL)
            with pytest.raises(ClusterError, match="is lost"):
                process.wait(LIMIT)
        else:
            gateway.close()
        until(
            lambda killed=killed: not alive(int((tmp_path / f"pid{killed}").read_text())),
            "it outlived its connection",
        )
    assert gateway.run(["echo", "again"], timeout=LIMIT).stdout == "again\n"


def test_what_runs_there_dies_when_cnibench_is_killed(tmp_path: Path) -> None:
    program = f"""
import sys, time
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
import tests.unit.test_kubernetes_gateway as here
from cnibench.clusters.kubernetes.connection.gateway import Gateway
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
made = Gateway(here.Here(), "space", "pod", "the Pod pod")
made.spawn(["sh", "-c", "echo $$ > {tmp_path}/pid; exec sleep 1000"], None, None)
print("started", flush=True)
time.sleep(1000)
"""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environment = {**os.environ, "TMPDIR": str(scratch)}
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        until(
            lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(),
            "it did not start",
        )
        process.kill()
    until(lambda: not alive(int((tmp_path / "pid").read_text())), "it outlived cnibench")
    assert not list(scratch.iterdir()), "a killed process removes no files, so there are none"


def test_what_a_container_without_python_says_is_quoted() -> None:
    class Failing(Here):
        def start(self, namespace: str, pod: str, argv: Sequence[str], **_: Any) -> Local:
            return Local(["sh", "-c", "echo 'exec: python3: not found' >&2; exit 1"])

    gateway = Gateway(Failing(), "space", "pod", "the Pod pod")  # type: ignore[arg-type]
    with pytest.raises(ClusterError, match="exec: python3: not found") as found:
        gateway.open()
    assert found.value.remedy == "does its image have python3?"


def test_where_commands_ran_before_the_remedy_is_not_an_image_with_python() -> None:
    """The node of the Pod was restarted, for example."""

    class Gone(Here):
        def start(self, namespace: str, pod: str, argv: Sequence[str], **given: Any) -> Local:
            if self.started:
                return Local(["sh", "-c", "echo 'container not found' >&2; exit 1"])
            return super().start(namespace, pod, argv, **given)

    gateway = Gateway(Gone(), "space", "pod", "the Pod pod")  # type: ignore[arg-type]
    gateway.open()
    gateway.close()
    with pytest.raises(ClusterError, match="container not found") as found:
        gateway.open()
    assert found.value.remedy == "is the Pod still there? kubectl get pods"


def test_a_heartbeat_runs_over_the_connection_and_sees_everything_there_stand_still(
    gateway: Gateway, tmp_path: Path
) -> None:
    """As on a node that is frozen: what runs commands there, the program and the heartbeat are
    stopped together.
    """
    text = Path(heartbeat.__file__).read_text()
    out = tmp_path / "told"
    with (
        gateway.spawn(["sleep", "60"], None, None) as program,
        gateway.spawn([sys.executable, "-I", "-S", "-c", text, "0.02"], out, None) as beat,
    ):
        until(lambda: out.exists() and out.read_text().startswith("ready"), "no heartbeat")
        runner = heartbeat.fields(Path(f"/proc/{beat.pid}/stat").read_bytes())[1]
        os.kill(program.pid, signal.SIGSTOP)
        time.sleep(0.3)
        os.kill(program.pid, signal.SIGCONT)
        time.sleep(0.3)
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in (runner, program.pid, beat.pid):
                os.kill(pid, number)
            time.sleep(0.5)
        beat.interrupt()
        assert beat.wait(LIMIT) == 0
    told = json.loads(out.read_text().splitlines()[1])
    assert max(until - since - waited for since, until, waited in told["gaps"]) > 0.3
    assert "sleep" in [stop[0] for stop in told["stops"]]


def test_a_program_that_floods_the_connection_is_ended(
    gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "MOST_OUTPUT", 1 << 20)
    with pytest.raises(MeasureError, match="printed more than 1 MiB"):
        gateway.run(["yes"], timeout=LIMIT)
    with (
        gateway.spawn(["yes"], tmp_path / "out", tmp_path / "err") as process,
        pytest.raises(MeasureError, match="printed more than 1 MiB"),
    ):
        process.wait(LIMIT)
    assert (tmp_path / "out").stat().st_size <= 1 << 20
    assert gateway.run(["echo", "still there"], timeout=LIMIT).stdout == "still there\n"
