"""What does watching for stalls cost? The heartbeat's CPU time over wall time, beside so many
programs that it looks at.

    python benchmarks/heartbeat.py [--programs 6 64] [--seconds 10]

Prints shares of one CPU (1.0: one CPU busy all the time), from schedstat. Needs no root; as root
the heartbeat has the priority that it has in a run. Many processes on the machine that come and go
make it look for new ones more often; in the lab it sees only those of the run.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

from cnibench.run.checks import stall_monitor


def share(programs: int, seconds: float) -> float:
    """CPU time of the heartbeat over wall time, its start left out."""
    text = stall_monitor.PROGRAM.read_text(encoding="utf-8")
    others = [subprocess.Popen(["sleep", "3600"]) for _ in range(programs)]
    argv = [sys.executable, "-I", "-S", "-c", text, str(stall_monitor.BEAT)]
    beat = subprocess.Popen(argv, stdout=subprocess.PIPE)
    try:
        assert beat.stdout is not None
        beat.stdout.readline()
        time.sleep(1)
        before, start = ran(beat.pid), time.monotonic()
        time.sleep(seconds)
        return (ran(beat.pid) - before) / (time.monotonic() - start)
    finally:
        beat.send_signal(signal.SIGINT)
        beat.wait(10)
        for other in others:
            other.kill()
            other.wait()


def ran(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--programs", type=int, nargs="*", default=[6, 64])
    parser.add_argument("--seconds", type=float, default=10.0)
    asked = parser.parse_args()
    processes = sum(path.name.isdigit() for path in Path("/proc").iterdir())
    print(
        f"{platform.release()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, {processes}"
        " processes here"
    )
    for programs in asked.programs:
        print(f"{programs} programs: {share(programs, asked.seconds):.4f} of one CPU")


if __name__ == "__main__":
    main()
