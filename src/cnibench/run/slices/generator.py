"""The load generator of one cell: started once for a block, paused (SIGSTOP) whenever it is not
its turn.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

from cnibench.errors import CnibenchError, Interrupted, LimitError, MeasureError
from cnibench.run.checks.cpus import check_pinned
from cnibench.run.sample_context import SampleContext
from cnibench.run.slices.clocks import Clocks, descendants
from cnibench.run.slices.counters import Counter, Sent
from cnibench.run.slices.load import FOR_EVER, Load
from cnibench.run.slices.looks import Programs
from cnibench.run.slices.priority import CLIENT, SERVER, check_normal, raised
from cnibench.system.process import Process

_START = 10.0  # s
_SILENT = 0.25  # s: what is in flight then is lost or stuck, and the next slice's lead-in has it
_STOPS = 3.0  # s: a client that is not stopped by then is dying, or its CPU is somebody else's
_LOOK = 0.0002  # s
_SEEN = 0.3  # s for a connection to be seen


@dataclass(frozen=True)
class Reading:
    """All counters of one load at a moment. Times in ns; ``at`` is CLOCK_MONOTONIC; ``waited`` is
    what the client waited for a CPU; ``packets`` and ``bytes`` are what its Pod has sent, where
    they are counted.
    """

    at: int
    count: int
    client: int
    server: int
    waited: int
    packets: int = 0
    bytes: int = 0


class Generator:
    """One cell's load. ``with`` starts it, paused, and ends all of it. Raises CnibenchError when it
    does not start.

    ``packets`` of tcp or udp are counted; '': none.
    """

    def __init__(self, s: SampleContext, load: Load, packets: str = "") -> None:
        self.s = replace(s, duration=FOR_EVER, warmup=0.0)
        self.load = load
        self.failure: CnibenchError | None = None  # what its end found out
        self.wanted = s.cell.priority or "real-time"
        self.priority = ""  # why it has no real-time priority that it should have, '' otherwise
        self.congestion_control = ""  # of its connections; '': none was seen
        self._running = ExitStack()
        self._client: Process | None = None
        self._counter: Counter | None = None
        self._packets = packets
        self._sent: Sent | None = None
        self._clocks: list[Clocks] = []
        self._ran = 0  # ns of CPU time that the client had used when it was paused
        self.programs = Programs(())

    def __enter__(self) -> Generator:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def end(self) -> None:
        """Ends its programs. May be called twice."""
        for counter in (self._counter, self._sent):
            if counter is not None:
                counter.close()
        for clock in self._clocks:
            clock.close()
        self.programs.close()
        try:  # the server first: it would complain about a client that is gone
            self._end(self._running.close)
        finally:
            if self._client is not None:
                self._end(self._client.kill)

    def _end(self, end: Callable[[], object]) -> None:
        """What had died, or cannot be ended, is kept: the other generators are not to blame."""
        try:
            end()
        except Interrupted:
            raise
        except CnibenchError as failure:
            self.failure = self.failure or failure

    def _start(self) -> None:
        before = descendants(os.getpid())
        self._running.enter_context(self.load.serve(self.s))
        with self.load.counted(self.s).entered():
            self._counter = self.load.counter(self.s)
        if self._packets:
            with self.s.client.entered():
                self._sent = Sent(self._packets, self.s.cell.ip, self.s.client.interface)
        self._client = self.load.start(self.s)
        end = time.monotonic() + _START
        while True:
            if self._client.poll() is not None:
                raise MeasureError(self._ended())
            try:
                self._counter.begin()
                break
            except MeasureError as error:
                if time.monotonic() > end:
                    raise LimitError(
                        f"its load did not begin within {_START:.0f} s: {error.message}"
                    ) from None
                time.sleep(0.005)
        first = self._counter.read()
        while self._counter.read() == first:
            if time.monotonic() > end:
                raise LimitError(f"nothing was delivered within {_START:.0f} s")
            time.sleep(0.001)
        end = time.monotonic() + _SEEN
        while not (algorithm := self._counter.congestion_control()) and time.monotonic() < end:
            time.sleep(0.001)  # connections of one transaction each come and go
        self.congestion_control = algorithm
        ours = descendants(os.getpid()) - before
        clients = sorted(pid for pid in ours if _group(pid) == self._client.pid)
        servers = sorted(ours.difference(clients))
        for pids, cpu, who in (
            (clients, self.s.client_cpu, "its client"),
            (servers, self.s.server_cpu, "its server"),
        ):
            if cpu is not None:
                for pid in pids:
                    check_pinned(pid, cpu, who)
        self._clocks = [Clocks(clients), Clocks(servers)]
        self.programs = Programs([*clients, *servers])
        self.pause()
        if self.wanted == "real-time":
            self.priority = raised(servers, SERVER) or raised(clients, CLIENT)
        else:
            check_normal(ours)

    def resume(self) -> None:
        """Raises MeasureError when the client is gone."""
        self._signal(signal.SIGCONT)

    def pause(self) -> None:
        """Stops the client and waits until what it has sent is delivered. Raises MeasureError, also
        when the client does not stop: it is dying, and its server keeps it from their CPU.
        """
        assert self._counter is not None
        assert self._client is not None
        self._signal(signal.SIGSTOP)
        end = time.monotonic() + _SILENT
        while self._counter.in_flight() and time.monotonic() < end:
            time.sleep(_LOOK)
        end = time.monotonic() + _STOPS
        while not self._client.stopped():
            if self._client.poll() is not None:
                raise MeasureError(self._ended())
            if time.monotonic() > end:
                raise MeasureError(f"its load generator did not stop within {_STOPS:.0f} s")
            time.sleep(_LOOK)
            self._signal(signal.SIGSTOP)  # somebody else may have continued it
        self._ran = self._clocks[0].read()[0]

    def strayed(self) -> float:
        """Seconds of CPU time that the client has used since it was paused: somebody else continued
        it. Raises MeasureError.
        """
        return (self._clocks[0].read()[0] - self._ran) / 1e9

    def read(self) -> Reading:
        """Raises MeasureError when the connection is gone."""
        assert self._counter is not None
        began = time.monotonic_ns()
        count = self._counter.read()
        ended = time.monotonic_ns()
        client, waited = self._clocks[0].read()
        server, _ = self._clocks[1].read()
        sent = self._sent.read() if self._sent else (0, 0)
        return Reading((began + ended) // 2, count, client, server, waited, *sent)

    def _signal(self, number: int) -> None:
        assert self._client is not None
        try:
            if self._client.poll() is None:
                os.killpg(self._client.pid, number)
                return
        except ProcessLookupError:
            pass
        raise MeasureError(self._ended())

    def _ended(self) -> str:
        assert self._client is not None
        try:
            said = (self.s.raw / "client.stderr").read_text(errors="replace").strip()
            said = said or (self.s.raw / "client.stdout").read_text(errors="replace").strip()
        except OSError:
            said = ""
        last = said.splitlines()[-1][:200] if said else "no output"
        return f"its load generator ended with {self._client.poll()}: {last}"


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0
