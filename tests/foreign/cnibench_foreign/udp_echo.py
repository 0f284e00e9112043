"""A workload: datagrams that are sent back, counted by the client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from cnibench.errors import MeasureError
from cnibench.model.profile import Strict
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.run.workload import Workload
from cnibench.system.process import Process

PORT = 7007
_FAMILY = "family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET"
_SERVE = f"""
import socket, sys
{_FAMILY}
with socket.socket(family, socket.SOCK_DGRAM) as server:
    server.bind((sys.argv[1], int(sys.argv[2])))
    while True:
        data, peer = server.recvfrom(2048)
        server.sendto(data, peer)
"""
_ASK = f"""
import json, socket, sys, time
{_FAMILY}
echoed = 0
with socket.socket(family, socket.SOCK_DGRAM) as client:
    client.settimeout(0.2)
    client.connect((sys.argv[1], int(sys.argv[2])))
    began = time.monotonic()
    while time.monotonic() < began + float(sys.argv[3]):
        try:
            client.send(b"x")
            client.recv(2048)
            echoed += 1
        except OSError:
            pass
print(json.dumps({{"echoed": echoed, "seconds": time.monotonic() - began}}))
"""


class Params(Strict):
    """None."""


class UdpEcho(Workload):
    name = "udp-echo"
    title = "datagrams sent back"
    tools = {"python3": "python3"}
    ports = (PORT,)
    Params = Params
    primary = "transaction_rate"
    transport = "udp"

    @contextmanager
    def serve(self, s: SampleContext) -> Iterator[None]:
        argv = [s.server.python, "-c", _SERVE, s.listen, str(s.port(PORT + s.cell.pair))]
        with s.server.spawn(s.on_server(argv), stderr=s.raw / "server.stderr"):
            yield

    def warm_up(self, s: SampleContext) -> None:
        s.client.run(self._client(s, s.warmup), timeout=s.warmup + 10)

    def start(self, s: SampleContext) -> Process:
        return s.client.spawn(
            s.on_client(self._client(s, s.duration)), stdout=s.raw / "client.stdout"
        )

    def measurements(self, s: SampleContext) -> Measurements:
        printed = json.loads((s.raw / "client.stdout").read_text())
        if not printed["echoed"]:
            raise MeasureError("no datagram came back")
        found = Measurements()
        found.add("transaction_rate", printed["echoed"] / printed["seconds"])
        return found

    def _client(self, s: SampleContext, seconds: float) -> list[str]:
        port = s.port(PORT + s.cell.pair)
        return [s.client.python, "-c", _ASK, s.target, str(port), str(seconds)]


PROVIDER = UdpEcho()
