"""The time until a new Service, or a new endpoint of one, is reachable: a client in a Pod tries
again and again, the change is written, and the first connection that is made ends it.

In the lab the time is that of writing the rules or maps, and only that: there is no API server
whose news kube-proxy would have to hear of first. On a cluster it counts from the request to that
server, and includes the way of the client's word back to here.

A connection counts when the server has said its word over it: a proxy on the way out may accept
connections to any address.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

from cnibench.errors import LimitError, MeasureError
from cnibench.model.profile import Strict
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.run.task import Task
from cnibench.run.workload import Workload
from cnibench.system.files import write_private
from cnibench.system.guest import patience
from cnibench.system.process import Process, ending
from cnibench.testbed.capabilities.service_changes import ServiceChanges
from cnibench.workloads import _common

PORT = 5441
_PER_PAIR = 2
_LIMIT = 120.0  # s: of ten thousand Services
_POLL = 0.0002  # s between looks at what the client has said

_SERVE = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
listener = socket.create_server((sys.argv[1], int(sys.argv[2])), family=family, backlog=1024)
while True:
    with listener.accept()[0] as one:
        one.sendall(sys.argv[3].encode())
"""
_WORD = "cnibench service-change"
# A SYN that was not led to the server never will be, so there is a new one each millisecond; one
# that is answered late counts as well.
_TRY = """
import select, socket, sys, time
target, port, limit, word = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4].encode()
family = socket.AF_INET6 if ":" in target else socket.AF_INET
poll, tried, end = select.poll(), {}, time.monotonic() + limit
print("trying", flush=True)
while time.monotonic() < end:
    one = socket.socket(family, socket.SOCK_STREAM)
    one.setblocking(False)
    one.connect_ex((target, port))
    tried[one.fileno()] = one
    poll.register(one, select.POLLIN)
    for number, _ in poll.poll(1):
        try:
            if tried[number].recv(len(word)) == word:
                print("reached", flush=True)
                sys.exit()
        except OSError:
            pass
        poll.unregister(number)
        tried.pop(number).close()
    if len(tried) > 60:
        number = next(iter(tried))
        poll.unregister(number)
        tried.pop(number).close()
sys.exit("no connection")
"""


class Params(Strict):
    """``change``: a Service that was not there, or one that was there before an endpoint that
    nobody has.
    """

    change: Literal["service", "endpoint"] = "service"


class ServiceChange(Workload):
    """One change a sample."""

    name = "service-change"
    title = "time until a new Service or endpoint is reachable"
    tools = {}
    ports = (PORT,)
    needs = (ServiceChanges,)
    Params = Params
    primary = "service_reachable"
    cpp = False
    noise = 0.1  # one short event a sample; nobody published repeats of it
    collected = False
    several = False

    def seconds(self, params: Mapping[str, Any], duration: float, warmup: float) -> float:
        return 1.0

    @contextmanager
    def serve(self, s: SampleContext) -> Iterator[None]:
        port = _port(s)
        argv = [s.server.python, "-I", "-S", "-c", _SERVE, s.listen, str(port), _WORD]
        with _common.serving(s, argv, port):
            yield

    def warm_up(self, s: SampleContext) -> None:
        """Nothing becomes warm: each sample is one event."""

    def start(self, s: SampleContext) -> Process:
        change = s.cell.params["change"]
        deployment = ServiceChanges.of(s.deployment)
        with ExitStack() as stack:
            coming = stack.enter_context(
                deployment.service_change(s.cell, s.server, _port(s), change)
            )
            limit = str(_LIMIT * patience() + 10)
            argv = [s.client.python, "-I", "-S", "-c", _TRY, coming.address, str(coming.port)]
            client = stack.enter_context(_common.start(s, [*argv, limit, _WORD]))
            _until(s, client, "trying")
            if "reached" in _common.outputs(s)[0]:
                raise MeasureError("the Service was reached before the change was made")
            asked = time.monotonic()
            coming.make()
            written = time.monotonic()
            _until(s, client, "reached")
            reached = time.monotonic()
        record = {"change": change, "reachable": reached - asked, "written": written - asked}
        write_private(s.raw / "change.json", json.dumps(record) + "\n")
        return Task("service-change")

    def measurements(self, s: SampleContext) -> Measurements:
        record = json.loads((s.raw / "change.json").read_text(encoding="utf-8"))
        found = Measurements()
        found.add("service_reachable", record["reachable"])
        found.records.append(("service_change", record))
        return found


def _port(s: SampleContext) -> int:
    return PORT + _PER_PAIR * s.cell.pair


def _until(s: SampleContext, client: Process, word: str) -> None:
    """Until the client has said so. Raises MeasureError, LimitError."""
    end = time.monotonic() + _LIMIT * patience()
    while word not in _common.outputs(s)[0]:
        status = client.poll()
        if status is not None and word not in _common.outputs(s)[0]:
            said = _common.tail(_common.outputs(s)[1]) or "no output"
            raise MeasureError(f"the client {ending(status)}: {said}")
        if time.monotonic() > end:
            raise LimitError(f"the Service was not reachable within {_LIMIT:.0f} s")
        time.sleep(_POLL)


PROVIDER = ServiceChange()
