"""Ports behind a Service: those of the server that a cell has."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from cnibench.clusters.kubernetes.deployment import KubernetesDeployment
from cnibench.clusters.kubernetes.pods import paths
from cnibench.clusters.kubernetes.pods.services import Services
from cnibench.run.sample_context import SampleContext
from tests._manifest import transactions


@pytest.mark.parametrize("pair", [0, 1])
def test_a_cell_with_the_number_of_another_pair_has_the_ports_of_its_own_server(pair: int) -> None:
    """In slices the servers of several cells listen on one address: each takes the ports of a pair
    of its own, and all are behind the Service of that address.
    """
    none = cast(Any, None)
    server: Any = type("Server", (), {"name": "b0"})()
    deployment = KubernetesDeployment.__new__(KubernetesDeployment)
    deployment._pods = {"b0": server}
    deployment.services = Services(none, none, (4,), "one")
    deployment.services._firsts = {"b0-nodeport": 30000, "b2-nodeport": 30500}
    cell = transactions("one", path="nodeport", pair=pair)
    s = SampleContext(cell, 0, deployment, none, server, 1.0, 0.0, Path(), None, None)
    assert s.port(12865 + 2 * pair) == paths.port(12865 + 2 * pair, 30000)


def _tries(port: int, word: str, limit: float) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-I", "-S", "-c", paths._CONNECT, "127.0.0.1", str(port), word]
    return subprocess.run(
        [*argv, str(limit)], capture_output=True, text=True, timeout=20, check=False
    )


def test_a_server_is_reached_when_it_says_its_word() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    listen = [sys.executable, "-I", "-S", "-c", paths._LISTEN, "127.0.0.1", str(port), "ab12"]
    with subprocess.Popen(listen, stdout=subprocess.DEVNULL) as server:
        try:
            assert _tries(port, "ab12", 10.0).returncode == 0
            assert "another server" in _tries(port, "cd34", 0.2).stderr
        finally:
            server.kill()


def test_a_proxy_that_accepts_any_connection_is_not_the_server() -> None:
    """What packets to a Service's address meet while its rules are not written: the way out."""
    with socket.create_server(("127.0.0.1", 0)) as proxy:

        def refuse() -> None:
            while True:
                try:
                    with proxy.accept()[0] as one:
                        one.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                except OSError:
                    return

        threading.Thread(target=refuse, daemon=True).start()
        done = _tries(proxy.getsockname()[1], "ab12" * 8, 0.3)
        proxy.shutdown(socket.SHUT_RDWR)
    assert done.returncode == 1
    assert "another server answers" in done.stderr
