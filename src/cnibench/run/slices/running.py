"""The programs of one load while its cell takes turns with others: continued, paused (SIGSTOP) and
read. Standard library only: it runs on this machine, or on the node where the client is
(on_node.py).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from cnibench.errors import LimitError, MeasureError
from cnibench.run.slices.looks import Programs
from cnibench.run.slices.priority import CLIENT, SERVER, check_normal, raised
from cnibench.run.slices.readings.accepted import Accepted
from cnibench.run.slices.readings.clocks import Clocks, Modes
from cnibench.run.slices.readings.counters import Counter, Sent
from cnibench.run.slices.readings.quota import Quota

_START = 30.0  # s: a loaded machine takes long to begin a program
_SILENT = 0.25  # s: what is in flight then is lost or stuck, and the next slice's lead-in has it
_STOPS = 3.0  # s: a client that is not stopped by then is dying, or its CPU is somebody else's
_LOOK = 0.0002  # s
_SEEN = 0.3  # s for a connection to be seen at one of its ends
OUTPUT = "what its programs wrote is in the sample's raw folder"


@dataclass(frozen=True)
class Reading:
    """All counters of one load at a moment. Times in ns; ``at`` is CLOCK_MONOTONIC; ``waited`` is
    what the client waited for a CPU; ``daemons`` is the CPU time of its datapath's; ``packets``
    and ``bytes`` are what its Pod has sent, where they are counted.
    """

    at: int
    count: int
    client: int
    server: int
    waited: int
    packets: int = 0
    bytes: int = 0
    daemons: int = 0


class Running:
    """``unit`` is how many transactions or bytes one count stands for, ``wanted`` the priority that
    its programs are to have.
    """

    def __init__(self, unit: float, wanted: Literal["real-time", "normal"]) -> None:
        self.unit = unit
        self.wanted = wanted
        self.priority = ""  # why it has no real-time priority that it should have, '' otherwise
        self.congestion_control = ""  # of its connections' ends; '': none was seen
        self.programs = Programs(())
        self._leader = 0
        self._counter: Counter | None = None
        self._sent: Sent | None = None
        self._accepted: Accepted | None = None
        self._clocks: list[Clocks] = []
        self.modes = Modes(())
        self.quota: Quota | None = None  # None: none can hold its programs back
        self.cpus: set[int] = set()  # that its programs may use
        self._ran = 0  # ns of CPU time that the client had used when it was paused

    def begun(
        self,
        leader: int,
        counter: Counter,
        sent: Sent | None = None,
        accepted: Accepted | None = None,
    ) -> None:
        """Waits until the client, whose process group ``leader`` leads, delivers something. Without
        ``accepted`` the congestion control is that of the client's end. Raises MeasureError,
        LimitError.
        """
        self._leader, self._counter = leader, counter
        self._sent, self._accepted = sent, accepted
        end = time.monotonic() + _START
        while True:
            if self.ended():
                raise self._gone()
            try:
                counter.begin()
                break
            except MeasureError as error:
                if time.monotonic() > end:
                    raise LimitError(
                        f"its load did not begin within {_START:.0f} s: {error.message}", OUTPUT
                    ) from None
                time.sleep(0.005)
        first = counter.read()
        while counter.read() == first:
            if time.monotonic() > end:
                raise LimitError(
                    f"nothing was delivered within {_START:.0f} s",
                    "is something between client and server that drops their packets?",
                )
            time.sleep(0.001)
        self.congestion_control = joined(seen(at) for at in (counter, accepted) if at is not None)

    def taken(
        self, clients: Sequence[int], servers: Collection[int], daemons: Collection[int] = ()
    ) -> None:
        """Pauses it for the first time. ``servers`` are its processes on this machine, ``daemons``
        those of the datapath, which all loads there need: they are watched and timed only. Raises
        MeasureError.
        """
        self._clocks = [Clocks(clients), Clocks(servers), Clocks(daemons)]
        self.programs = Programs([*clients, *servers, *daemons])
        self.modes = Modes([*clients, *servers, *daemons])
        for pid in [*clients, *servers]:
            with suppress(ProcessLookupError):  # it has just ended: its generator says so
                self.cpus |= os.sched_getaffinity(pid)
        self.pause()
        if self.wanted == "real-time":
            self.priority = raised(servers, SERVER) or raised(clients, CLIENT)
        else:
            check_normal([*clients, *servers])
        if self.wanted == "normal" or self.priority:
            self.quota = Quota([*clients, *servers])

    def resume(self) -> None:
        """Raises MeasureError when the client is gone, or another of its programs, of which the
        client could only say that it does not answer.
        """
        if (gone := self.programs.ended()) and not self.ended():
            raise MeasureError(
                f"its program {gone} has ended",
                "what ended it is in the kernel's log if it was the kernel (dmesg)",
            )
        self._signal(signal.SIGCONT)

    def pause(self) -> None:
        """Stops the client and waits until what it has sent is delivered. Raises MeasureError, also
        when the client does not stop: it is dying, and its server keeps it from their CPU.
        """
        assert self._counter is not None
        self._signal(signal.SIGSTOP)
        end = time.monotonic() + _SILENT
        while self._counter.in_flight() and time.monotonic() < end:
            time.sleep(_LOOK)
        end = time.monotonic() + _STOPS
        while not self.stopped():
            if self.ended():
                raise self._gone()
            if time.monotonic() > end:
                raise MeasureError(
                    f"its load generator did not stop within {_STOPS:.0f} s",
                    "stop other programs, or use --method windows",
                )
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
        daemons, _ = self._clocks[2].read()
        sent = self._sent.read() if self._sent else (0, 0)
        return Reading((began + ended) // 2, count, client, server, waited, *sent, daemons)

    def used(self) -> int:
        """ns of CPU time of its programs on this machine so far."""
        return sum(clock.read()[0] for clock in self._clocks)

    def end(self) -> None:
        """Ends the client. May be called twice."""
        self.close()
        if self._leader and not self.ended():
            os.killpg(self._leader, signal.SIGKILL)

    def close(self) -> None:
        """What was opened to read it; may be called twice."""
        for reader in (self._counter, self._sent, self._accepted):
            if reader is not None:
                reader.close()
        for clock in self._clocks:
            clock.close()
        self.programs.close()
        self.modes.close()
        if self.quota:
            self.quota.close()

    def ended(self) -> bool:
        """Has the client ended?"""
        return _state(self._leader) in ("", "Z", "X")

    def stopped(self) -> bool:
        """Is the client stopped?"""
        return _state(self._leader) in ("T", "t")

    def _signal(self, number: int) -> None:
        try:
            if not self.ended():
                os.killpg(self._leader, number)
                return
        except ProcessLookupError:
            pass
        raise self._gone()

    def _gone(self) -> MeasureError:
        """Why the client is not there any more."""
        return MeasureError("its load generator has ended", OUTPUT)


def joined(ends: Iterable[str]) -> str:
    """The congestion control of several ends, each name once."""
    return ",".join(sorted({one for its in ends for one in its.split(",") if one}))


def seen(at: Counter | Accepted) -> str:
    """The congestion control at one end. Connections of one transaction each come and go: it is
    asked again for a while.
    """
    end = time.monotonic() + _SEEN
    while not (algorithm := at.congestion_control()) and time.monotonic() < end:
        time.sleep(0.001)
    return algorithm


def _state(pid: int) -> str:
    """The letter of proc_pid_stat(5); '' of a process that is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return ""
