"""Wall time of a whole ``cnibench run`` over the sum of (warm-up + duration) of its samples: 1.10
or less is wanted with 10 s cells in the lab, less than 10 s beside them on an existing cluster.

    python benchmarks/run_wall.py [--cni veth-baseline,flannel] [--duration 10s] [--warmup 2s]
    [--blocks 1] [more options of cnibench run]
    python benchmarks/run_wall.py --cni current --cluster existing --kubeconfig FILE

It counts from the first instruction to the report on the screen: imports, checks, making, attesting
and removing the profiles, all servers, perf's evaluation and the report. Slices have no warm-up.
The lab needs root.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

from cnibench.rundir.reader import RunReader

_MAIN = (
    "import sys; from cnibench.cli.main import main; sys.argv = ['cnibench', *sys.argv[1:]]; main()"
)


def measured(reader: RunReader) -> float:
    """Seconds of all samples together."""
    cells, plan = {cell.id: cell for cell in reader.plan.cells}, reader.plan
    return sum(
        (cells[cell].duration or plan.duration)
        + (plan.warmup if cells[cell].method == "windows" else 0.0)
        for cell, _ in reader.done()
    )


def beside(reader: RunReader, began: float, ended: float) -> str:
    """Where the rest of the time was spent."""
    samples = list(reader.samples())
    first = min(datetime.fromisoformat(one.start).timestamp() for one in samples) - began
    last = ended - max(datetime.fromisoformat(one.end).timestamp() for one in samples)
    between = ended - began - first - last - measured(reader)
    steps = [one["seconds"] for one in reader.events() if one["event"] == "profile-installed"]
    taken = ", ".join(
        f"{name} {' + '.join(f'{one[name]:.1f}' for one in steps)} s"
        for name in ("install", "attest")
    )
    return (
        f"{first:.1f} s before the first sample, {between:.1f} s beside and between samples,"
        f" {last:.1f} s after the last; of all that: {taken}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cni", default="veth-baseline,flannel")
    parser.add_argument("--duration", default="10s")
    parser.add_argument("--warmup", default="2s")
    parser.add_argument("--blocks", default="1")
    asked, more = parser.parse_known_args()
    if "--cluster" not in more:
        more += ["--kernel", "host"]
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        given = [word for name, value in vars(asked).items() for word in (f"--{name}", value)]
        argv = [sys.executable, "-c", _MAIN, "run", "--out", folder, *given, *more]
        began = time.time()
        status = subprocess.run(argv, stdout=subprocess.DEVNULL, check=False).returncode
        ended = time.time()
        (path,) = Path(folder).iterdir()
        reader = RunReader(path)
        seconds, samples = measured(reader), len(reader.done())
        rest = beside(reader, began, ended)
    wall = ended - began
    print(
        f"{asked.cni}, {samples} samples of {asked.warmup} + {asked.duration}, exit status {status}"
    )
    print(f"kernel {platform.release()}, {os.cpu_count()} CPUs, load {load:.1f} before")
    print(f"wall {wall:.1f} s / measured {seconds:.1f} s = {wall / seconds:.3f}")
    print(f"beside them {wall - seconds:.1f} s: {rest}")


if __name__ == "__main__":
    main()
