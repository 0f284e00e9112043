"""The load generator of one cell: started once for a block, paused whenever it is not its turn."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import replace

from cnibench.errors import MeasureError
from cnibench.run.checks.cpus import check_pinned
from cnibench.run.sample_context import SampleContext
from cnibench.run.slices.lifetime import Lifetime
from cnibench.run.slices.load import FOR_EVER, Load
from cnibench.run.slices.readings.accepted import Accepted
from cnibench.run.slices.readings.clocks import descendants
from cnibench.run.slices.readings.counters import Sent
from cnibench.run.slices.running import OUTPUT, Running
from cnibench.system.files import write_private
from cnibench.system.process import Process, ending

_COMMANDS = "commands.json"  # of a raw folder: what was started


class Generator(Running, Lifetime):
    """One cell's load. ``with`` starts it, paused, and ends all of it. Raises CnibenchError when it
    does not start.

    ``packets`` of tcp or udp are counted; '': none.
    """

    def __init__(self, s: SampleContext, load: Load, packets: str = "") -> None:
        super().__init__(load.units(1, s), s.cell.priority or "real-time")
        self.s = replace(s, duration=FOR_EVER, warmup=0.0)
        self.load = load
        self._programs = ExitStack()
        self._client: Process | None = None
        self._packets = packets

    def end(self) -> None:
        self.close()
        try:  # the server first: it would complain about a client that is gone
            self._end(self._programs.close)
        finally:
            if self._client is not None:
                self._end(self._client.kill)

    def _start(self) -> None:
        before = descendants(os.getpid())
        self._programs.enter_context(self.load.serve(self.s))
        # closed, whatever happens
        self._sent = sent = self._sent_by_client()
        self._accepted = accepted = self._accepted_by_server()
        with self.load.counted(self.s).entered():
            self._counter = counter = self.load.counter(self.s).made()
        self._client = self.load.start(self.s)
        self.begun(self._client.pid, counter, sent, accepted)
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
        self.taken(clients, servers, self.s.daemons)

    def _sent_by_client(self) -> Sent | None:
        if not self._packets:
            return None
        with self.s.client.entered():
            return Sent(self._packets, self.s.cell.ip, self.s.client.interface)

    def _accepted_by_server(self) -> Accepted | None:
        port = self.load.data_port(self.s)
        if not port:
            return None
        with self.s.server.entered():
            return Accepted(port, self.s.cell.ip)

    def ended(self) -> bool:
        assert self._client is not None
        return self._client.poll() is not None

    def stopped(self) -> bool:
        assert self._client is not None
        return self._client.stopped()

    def _gone(self) -> MeasureError:
        assert self._client is not None
        try:
            said = (self.s.raw / "client.stderr").read_text(errors="replace").strip()
            said = said or (self.s.raw / "client.stdout").read_text(errors="replace").strip()
        except OSError:
            said = ""
        status = self._client.poll()
        if status == 0:
            return MeasureError(
                "its load generator did all that it was started for before its turns were over",
                "use a shorter --duration, or --method windows",
            )
        how = ending(status) if status is not None else "ended"
        last = said.splitlines()[-1][:200] if said else "no output"
        return MeasureError(f"its load generator {how}: {last}", OUTPUT)


class Shared(Generator):
    """The programs of ``of``, which have started, for a cell that is the same load with perf. They
    end for both.
    """

    def __init__(self, s: SampleContext, of: Generator, packets: str) -> None:
        super().__init__(s, of.load, packets)
        self._of = of

    def _start(self) -> None:
        of = self._of
        self._sent = self._sent_by_client()
        self._client, self._leader, self._counter = of._client, of._leader, of._counter
        self._clocks, self.programs, self.modes = of._clocks, of.programs, of.modes
        self.priority, self.cpus, self.quota = of.priority, of.cpus, of.quota
        self.congestion_control = of.congestion_control
        write_private(self.s.raw / _COMMANDS, (of.s.raw / _COMMANDS).read_text())

    def end(self) -> None:
        if self._sent is not None:
            self._sent.close()
        self._of.end()
        self.failure = self._of.failure

    def _gone(self) -> MeasureError:
        return self._of._gone()


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0
