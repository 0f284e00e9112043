"""The connection to a machine: what is held there, and what its commands never do."""

from __future__ import annotations

import select
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cnibench.clusters.ssh.address import Address
from cnibench.clusters.ssh.connection import Connection
from cnibench.errors import ClusterError

SSH = '#!/bin/sh\nfor command; do :; done\nexec sh -c "$command"\n'


@pytest.fixture
def connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    """To this machine, by an ssh that needs no server."""
    program = tmp_path / "ssh"
    program.write_text(SSH)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    made = Connection(Address("here"))
    yield made
    made.close()


def test_what_somebody_else_holds(connection: Connection) -> None:
    assert connection.hold("echo held; exec cat")
    assert not connection.hold("exit 3")


def test_what_is_held_is_held_again(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A machine lets go of a run that was asleep; each line here ends what holds it."""
    monkeypatch.setattr("cnibench.clusters.ssh.connection._BEAT", 0.05)
    times = tmp_path / "times"
    assert connection.hold(f"echo >>{times}; echo held; head -n 1 >/dev/null")
    end = time.monotonic() + 10
    while len(times.read_text()) < 3 and time.monotonic() < end:
        time.sleep(0.05)
    assert len(times.read_text()) >= 3


@pytest.mark.parametrize("files", [1, 2], ids=["boot-id", "process-1"])
def test_a_machine_that_was_restarted_is_named(
    files: int, connection: Connection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A machine that is a container keeps its boot ID; of others process 1 may not be seen."""
    monkeypatch.setattr("cnibench.clusters.ssh.connection._AGAIN", 0.05)
    seen = [tmp_path / "boot_id", tmp_path / "stat"]
    stat = "1 (a (b) c) S" + " 0" * 18
    seen[0].write_text("first\n")
    if files > 1:
        seen[1].write_text(f"{stat} 100 0\n")
    words = " ".join(map(str, seen))
    command = f"sh -c 'echo up; cat {words} 2>/dev/null; echo; exec cat'"
    monkeypatch.setattr("cnibench.clusters.ssh.connection._UP", command)
    said: list[str] = []
    connection.notify = said.append

    def lose() -> str:
        before = len(said)
        assert connection._master is not None
        connection._master.kill()
        end = time.monotonic() + 10
        while len(said) < before + 2 and time.monotonic() < end:
            time.sleep(0.05)
        return said[-1]

    connection.open()
    assert lose().endswith(" s")
    assert not connection.restarted
    if files > 1:
        seen[1].write_text(f"{stat} 200 0\n")
    else:
        seen[0].write_text("second\n")
    assert lose().endswith(" s; the machine was restarted")
    assert lose().endswith(" s")
    assert connection.restarted


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo No space left on device >&2; exit 2", "ssh://here: No space left on device"),
        ("exit 1", "ssh://here: nothing can be written to its disk"),
        ("echo Broken pipe >&2; exit 255", "ssh://here: the connection was lost"),
    ],
)
def test_a_failure_is_not_taken_for_somebody_else(
    command: str, said: str, connection: Connection
) -> None:
    with pytest.raises(ClusterError) as caught:
        connection.hold(command)
    assert caught.value.message.startswith(said)
    assert caught.value.remedy


def test_a_command_makes_no_connection_of_its_own(tmp_path: Path) -> None:
    """Where the shared one is lost: it would lead to the port that ssh thinks of."""
    connection = Connection(Address("127.0.0.1", port=2222))
    connection._socket = tmp_path / "gone"
    with (
        socket.create_server(("127.0.0.1", 22)) as server,
        subprocess.Popen(connection._argv("true"), stderr=subprocess.PIPE) as ssh,
    ):
        asked, _, _ = select.select([server, ssh.stderr], [], [], 10)
        ssh.kill()
    assert asked == [ssh.stderr]
