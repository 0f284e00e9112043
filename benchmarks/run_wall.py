"""Wall time of a whole ``cnibench run`` over the sum of (warm-up + duration) of its samples: 1.10
or less is wanted with 10 s cells.

    python benchmarks/run_wall.py [--cni veth-baseline,flannel] [--duration 10s] [--warmup 2s]
    [--blocks 1]

It counts from the first instruction to the report on the screen: imports, checks, making, attesting
and removing the profiles, all servers, perf's evaluation and the report. Needs root.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cnibench.rundir.reader import RunReader

_MAIN = (
    "import sys; from cnibench.cli.main import main; sys.argv = ['cnibench', *sys.argv[1:]]; main()"
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cni", default="veth-baseline,flannel")
    parser.add_argument("--duration", default="10s")
    parser.add_argument("--warmup", default="2s")
    parser.add_argument("--blocks", default="1")
    asked = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        given = [word for name, value in vars(asked).items() for word in (f"--{name}", value)]
        argv = [sys.executable, "-c", _MAIN, "run", "--kernel", "host", "--out", folder, *given]
        began = time.perf_counter()
        status = subprocess.run(argv, stdout=subprocess.DEVNULL, check=False).returncode
        wall = time.perf_counter() - began
        (path,) = Path(folder).iterdir()
        reader = RunReader(path)
        samples = len(reader.done())
        measured = samples * (reader.plan.duration + reader.plan.warmup)
    print(
        f"{asked.cni}, {samples} samples of {asked.warmup} + {asked.duration}, exit status {status}"
    )
    print(f"kernel {platform.release()}, {os.cpu_count()} CPUs, load {load:.1f} before")
    print(f"wall {wall:.1f} s / measured {measured:.1f} s = {wall / measured:.3f}")


if __name__ == "__main__":
    main()
