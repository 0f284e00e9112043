"""The congestion control of a connection, out of what ss prints."""

from __future__ import annotations

import socket
import sys

import pytest

from cnibench.errors import MeasureError
from cnibench.run.checks.congestion import Connection, measured, parse, read
from tests.unit._here import Here

STREAM = (
    "ESTAB 0      2896   10.9.0.1:43517 10.9.0.2:5556 ts sack cubic wscale:10,10 rto:204"
    " rtt:0.412/0.807 mss:1448 bytes_sent:9000 bytes_acked:8900 segs_out:7\n"
    "ESTAB 0      0      [fd00::1]:57783 [fd00::2]:5555 bbr wscale:10,10 rto:204 bytes_acked:80"
    " bytes_received:20 segs_in:3\n"
)


def test_algorithm_and_bytes_of_each_connection() -> None:
    assert parse(STREAM) == [Connection("cubic", 8900), Connection("bbr", 100)]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "TIME-WAIT 0 0 10.9.0.2:5556 10.9.0.2:13622",
        "ESTAB 0 0 10.0.0.1:1 10.0.0.2:2 wscale:1,1 rto:204",
        "ESTAB 0 0",
    ],
)
def test_lines_that_name_no_algorithm(line: str) -> None:
    assert parse(line) == []


def test_control_connection_does_not_count() -> None:
    assert measured(parse(STREAM)) == {"cubic"}
    assert measured([Connection("cubic", 0), Connection("bbr", 0)]) == {"cubic", "bbr"}
    assert measured([]) == frozenset()


def test_a_real_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            peer, _ = server.accept()
            with peer:
                asked = client.getsockopt(socket.IPPROTO_TCP, 13, 16)  # TCP_CONGESTION
                assert read(Here(), port) == {asked.rstrip(b"\0").decode()}
        assert read(Here(), 1, seconds=0.0) == frozenset()


def test_kernel_that_cannot_be_asked() -> None:
    place = Here(program=sys.executable)  # which takes none of these options
    with pytest.raises(MeasureError, match="the congestion control cannot be read") as error:
        read(place, 1)
    assert "iproute2" in error.value.remedy
