"""Program: wakes many times a second and notes when it could not, and which of its parent's
processes were stopped.

Standard library only; it is sent as text to wherever programs are measured: ``python -I -S -c TEXT
BEAT`` (BEAT in s). It watches its parent and all descendants of its parent but itself: on our
machine cnibench and all that it started, in a Pod the program that runs our commands there and all
that it started. It says ``ready``, and at SIGINT or SIGTERM one line of JSON (times in s of
CLOCK_MONOTONIC there):

    started, end, cpus
    kernel, tree  identify the running kernel, and the processes that are watched
    gaps          [from, to, waited]: it was not woken in time; for ``waited`` of that it waited for
                  a CPU, or had one (schedstat)
    stops         [name, from, to, kind]: a process was ``stopped`` (a signal, a debugger) or
                  ``frozen`` (its cgroup)
    waits         [name, from, to, waited]: a process got no CPU for so long at a stretch, at least
    counters      [time, steal, throttled, used, own]: s of CPU time so far that the machine (all
                  CPUs) and the cgroup did not get, that all programs of the machine used, and that
                  the watched processes used, those of them included that have ended
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from typing import Any

NAME = "cnibench-beat"  # in ps and top
SCAN = 0.25  # s: how often new processes are looked for, and counters read
LOOK = 2  # beats between two looks at processes, which cost more than the beat
AT_ONCE = 16  # processes at one look; more of them take turns
NOTED = 0.02  # s: shorter gaps and waits are not worth a line
# s: a gap while it was not asleep; a busy kernel may keep it waiting for /proc for tenths of a
# second
LONG = 0.5
MOST = 20_000  # lines of each kind
AHEAD = -10  # nice value: it must be woken in time on a busy machine
HALTED = b"Tt"
ENDING = (signal.SIGINT, signal.SIGTERM)
# Where the kernel keeps frozen tasks: cgroup v1, cgroup v2, the latter where the compiler has
# inlined it.
FREEZERS = (b"__refrigerator", b"do_freezer_trap", b"get_signal")


class Watched:
    def __init__(self, pid: int, now: float) -> None:
        self.pid = pid
        self.state = opened(f"/proc/{pid}/stat")
        self.schedule = opened(f"/proc/{pid}/schedstat")
        self.where = opened(f"/proc/{pid}/wchan")
        self.stopped = ("", 0.0, "")  # name, since when, kind
        self.ran, self.waited = times(self.schedule)
        self.read = now

    def close(self) -> None:
        for descriptor in (self.state, self.schedule, self.where):
            if descriptor >= 0:
                os.close(descriptor)

    def name(self) -> str:
        return fields(os.pread(self.state, 4096, 0))[0]

    def halted(self) -> bool:
        """Is it stopped by a signal or a debugger? Of its state, one letter, nothing else is read:
        this is done often.
        """
        text = os.pread(self.state, 128, 0)
        return text[text.rindex(b")") + 2] in HALTED

    def ticks(self) -> int:
        try:
            return with_ended(os.pread(self.state, 4096, 0))
        except OSError:
            return 0  # it has ended: its parent has what it used

    def frozen(self) -> bool:
        return self.where >= 0 and os.pread(self.where, 100, 0) in FREEZERS


def opened(path: str) -> int:
    """A descriptor, -1 for what this kernel does not have or we may not read."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


def times(descriptor: int) -> tuple[float, float]:
    """Seconds that a task has run so far, and that it has waited for a CPU (proc(5), schedstat)."""
    if descriptor < 0:
        return 0.0, 0.0
    words = os.pread(descriptor, 100, 0).split()
    return int(words[0]) / 1e9, int(words[1]) / 1e9


def fields(text: bytes) -> tuple[str, int]:
    """(name, parent) out of /proc/PID/stat."""
    before, _, after = text.rpartition(b")")
    return before.partition(b"(")[2].decode(errors="replace"), int(after.split()[1])


def kernel() -> str:
    """Tells one running kernel from another, as long as both run; '' where it is not known."""
    file = opened("/proc/sys/kernel/random/boot_id")
    if file < 0:
        return ""
    try:
        return os.pread(file, 100, 0).decode().strip()[:8]
    finally:
        os.close(file)


def used(line: bytes) -> int:
    """Ticks of all programs on all CPUs: user, nice and system of the first line of /proc/stat.
    Interrupts and softirqs are not among them.
    """
    return sum(map(int, line.split()[1:4]))


def with_ended(text: bytes) -> int:
    """Ticks of a process and of its children that have ended, out of /proc/PID/stat."""
    return sum(map(int, text.rpartition(b")")[2].split(maxsplit=15)[11:15]))


def throttling(process: str = "self") -> list[int]:
    """The files that count the throttling of a process's cgroup and of those above it, version 2
    and 1.
    """
    found = []
    try:
        with open(f"/proc/{process}/cgroup", encoding="utf-8") as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return []
    for _, controllers, path in lines:
        if controllers and "cpu" not in controllers.split(","):
            continue
        for root in (
            "/sys/fs/cgroup",
            *(["/sys/fs/cgroup/unified"] if not controllers else [f"/sys/fs/cgroup/{controllers}"]),
        ):
            at = path.strip("/").split("/")
            found += [
                "/".join([root, *at[:depth], "cpu.stat"]).replace("//", "/")
                for depth in range(len(at), -1, -1)
            ]
    return [descriptor for name in dict.fromkeys(found) if (descriptor := opened(name)) >= 0]


def throttled(files: list[int]) -> float:
    """Seconds that those cgroups were throttled so far, all of their CPUs together."""
    total = 0.0
    for descriptor in files:
        for line in os.pread(descriptor, 4096, 0).splitlines():
            word, _, value = line.partition(b" ")
            if word == b"throttled_usec":
                total += int(value) / 1e6
            elif word == b"throttled_time":
                total += int(value) / 1e9
    return total


class Heartbeat:
    def __init__(self, beat: float) -> None:
        self.beat = beat
        self.root = os.getppid()
        self.parents: dict[int, int] = {}
        self.watched: dict[int, Watched] = {}
        self.turn: list[int] = []
        self.found: dict[str, list[list[Any]]] = {
            "gaps": [],
            "stops": [],
            "waits": [],
            "counters": [],
        }
        self.files = throttling()
        self.tick = os.sysconf("SC_CLK_TCK")
        self.cpus = os.sysconf("SC_NPROCESSORS_ONLN")
        self.stat, self.own, self.itself, self.last = (
            opened("/proc/stat"),
            opened("/proc/self/schedstat"),
            opened("/proc/self/stat"),
            opened("/proc/loadavg"),
        )
        self.newest = b""
        self.ours = self.before = 0  # ticks that the watched processes have used, and last had

    def note(self, kind: str, *line: Any) -> None:
        if len(self.found[kind]) < MOST:
            self.found[kind].append(
                [round(item, 6) if isinstance(item, float) else item for item in line]
            )

    def scan(self, now: float) -> None:
        """Finds new processes; reads what counts over a longer time."""
        newest = os.pread(self.last, 100, 0).split()[
            -1
        ]  # the number that the newest process of this namespace got
        if newest != self.newest:
            self.newest = newest
            self.find(now)
        for one in self.watched.values():
            self.look_longer(one, now)
        line = os.pread(self.stat, 400, 0).split(b"\n", 1)[0]
        steal = int((line.split() + [b"0"] * 9)[8]) / self.tick
        own = with_ended(os.pread(self.itself, 4096, 0))
        own += sum(one.ticks() for one in self.watched.values())
        # It falls when a process ends whose parent does not wait for it (netserver ignores SIGCHLD)
        self.ours += max(0, own - self.before)
        self.before = own
        total = used(line) / self.tick
        self.note("counters", now, steal, throttled(self.files), total, self.ours / self.tick)

    def find(self, now: float) -> None:
        here = {int(name) for name in os.listdir("/proc") if name.isdigit()}
        for pid in here - self.parents.keys():
            try:
                with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
                    self.parents[pid] = fields(file.read())[1]
            except (OSError, IndexError):
                continue
        for pid in self.parents.keys() - here:
            del self.parents[pid]
        for pid in self.parents.keys() - self.watched.keys() - {os.getpid()}:
            if self.below(pid):
                try:
                    self.watched[pid] = Watched(pid, now)
                except (OSError, IndexError):
                    continue

    def below(self, pid: int) -> bool:
        while pid and pid != self.root:
            pid = self.parents.get(pid, 0)
        return pid == self.root

    def look_longer(self, one: Watched, now: float) -> None:
        try:
            ran, waited = times(one.schedule)
            lump = (
                waited - one.waited - (now - one.read)
            )  # short waits add up to no more than the time itself
            if lump >= NOTED:
                self.note("waits", one.name(), now - (waited - one.waited), now, lump)
            if ran == one.ran and not one.stopped[1] and one.frozen():
                one.stopped = (one.name(), now, "frozen")
            one.ran, one.waited, one.read = ran, waited, now
        except (OSError, IndexError):
            pass  # it has ended: its turn in ``look`` finds that

    def look(self, now: float) -> None:
        """Which of some processes are stopped now."""
        if not self.turn:
            self.turn = list(self.watched)
        part, self.turn = self.turn[:AT_ONCE], self.turn[AT_ONCE:]
        for pid in part:
            one = self.watched[pid]
            try:
                halted = one.halted()
            except (OSError, ValueError):
                self.end_stop(one, now)
                one.close()
                del self.watched[pid]
                continue
            if halted:
                if not one.stopped[1]:
                    one.stopped = (one.name(), now, "stopped")
            elif one.stopped[1] and not (one.stopped[2] == "frozen" and one.frozen()):
                self.end_stop(one, now)

    def end_stop(self, one: Watched, now: float) -> None:
        name, since, kind = one.stopped
        if since:
            self.note("stops", name, since, now, kind)
        one.stopped = ("", 0.0, "")

    def main(self) -> None:
        ending, wake = (
            os.pipe()
        )  # not sigtimedwait: Python's tells of a signal when it was only stopped and continued
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake)
        for number in ENDING:
            signal.signal(number, lambda *_: None)
        started = before = now = time.monotonic()
        self.scan(started)
        scanned, beats = started, 0
        spent = sum(times(self.own))
        print("ready", flush=True)
        while True:
            asleep, own = time.monotonic(), sum(times(self.own))
            if asleep - now >= LONG:
                self.note("gaps", now, asleep, own - spent)
            wait = max(0.0, before + self.beat - asleep)
            ended, _, _ = select.select([ending], [], [], wait)
            now = time.monotonic()
            spent = sum(times(self.own))
            if now - asleep - wait >= NOTED:
                self.note("gaps", asleep + wait, now, spent - own)
            beats += 1
            if ended or beats % LOOK == 0:
                self.look(now)
            if ended or now - scanned >= SCAN:
                self.scan(now)
                scanned = now
            before = now
            if ended:
                break
        for one in self.watched.values():
            self.end_stop(one, now)
        print(
            json.dumps(
                {
                    "started": started,
                    "end": now,
                    "cpus": self.cpus,
                    "kernel": kernel(),
                    "tree": f"{os.readlink('/proc/self/ns/pid')} {self.root}",
                    **self.found,
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    with open("/proc/self/comm", "w", encoding="ascii") as file:
        file.write(NAME)
    try:
        os.setpriority(os.PRIO_PROCESS, 0, min(os.getpriority(os.PRIO_PROCESS, 0), AHEAD))
    except OSError:
        pass  # not root: it waits for a CPU as others do, which ``waited`` tells
    Heartbeat(float(sys.argv[1])).main()
