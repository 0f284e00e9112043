"""perf.data to cycles per packet against ``perf script | inferno-collapse-perf`` on the same file,
interleaved.

    python benchmarks/perf_collapse.py [PERF_DATA] [--rounds 7]

Without a file it records the whole machine as the collector does, for the 10 s of a default cell,
while a loopback netperf runs. Both sides start as fresh programs, so ours pays for the interpreter
and for parsing /proc/kallsyms each time; `cnibench run` pays for neither. Printed: the ratio of
medians (ours / theirs, 1.0 or less is wanted) with the smallest and largest ratio of one round.
Needs root, perf, and inferno (cargo install inferno).
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cnibench.collectors._recording import FREQUENCY, LEAN

OURS = """
import sys
from pathlib import Path
from cnibench.cpp import attribution, perfdata, stacks, symbols, taxonomy
recording = perfdata.read(Path(sys.argv[1]).read_bytes())
names = taxonomy.load()
table = symbols.Kallsyms(Path("/proc/kallsyms").read_bytes(), recording.ksymbols)
found = stacks.named(recording, table, 1e9, None, names.is_network)
Path(sys.argv[2]).write_text(stacks.fold(found))
print(attribution.record(attribution.attribute(found, names), 1, clock=recording.clock, version=names.version)["samples"])
"""  # noqa: E501


def record(path: Path) -> None:
    """Ten seconds of this machine with TCP over the loopback device."""
    server = subprocess.Popen(
        ["netserver", "-D", "-4", "-p", "12999"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        time.sleep(0.5)
        client = subprocess.Popen(
            ["netperf", "-4", "-H", "localhost", "-p", "12999", "-l", "12"],
            stdout=subprocess.DEVNULL,
        )
        subprocess.run(
            [
                "perf",
                "record",
                "-q",
                "-a",
                "-g",
                "-e",
                "cycles",
                "-F",
                str(FREQUENCY),
                *LEAN,
                "-o",
                path,
                "--",
                "sleep",
                "10",
            ],
            check=True,
            timeout=60,
        )
        client.wait(30)
    finally:
        server.kill()
        server.wait()


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(
        command, check=True, timeout=300, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", nargs="?", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    inferno = shutil.which("inferno-collapse-perf")
    if inferno is None or shutil.which("perf") is None:
        print(
            "error: perf and inferno-collapse-perf are needed: apt-get install linux-perf; cargo"
            " install inferno",
            file=sys.stderr,
        )
        return 3
    with tempfile.TemporaryDirectory() as folder:
        data = arguments.data or Path(folder) / "perf.data"
        if arguments.data is None:
            record(data)
        ours = [sys.executable, "-c", OURS, str(data), str(Path(folder) / "ours")]
        theirs = [
            "sh",
            "-c",
            f'perf script -i "$0" | {inferno} > "$1"',
            str(data),
            str(Path(folder) / "theirs"),
        ]
        samples = subprocess.run(
            ours, check=True, timeout=300, capture_output=True, text=True
        ).stdout.strip()
        pairs = []
        for number in range(
            arguments.rounds
        ):  # who goes first changes, so that neither always finds warm caches
            first, second = (ours, theirs) if number % 2 else (theirs, ours)
            a, b = seconds(first), seconds(second)
            pairs.append((a, b) if number % 2 else (b, a))
        size = data.stat().st_size
    mine, other = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratios = sorted(a / b for a, b in pairs)
    version = subprocess.run(
        ["perf", "--version"], check=True, capture_output=True, text=True, timeout=10
    ).stdout.strip()
    spread = f"rounds: {ratios[0]:.3f} to {ratios[-1]:.3f}"
    print(
        f"perf.data to cycles per packet / perf script | inferno-collapse-perf: {mine / other:.3f}"
        f" ({spread})"
    )
    print(
        f"  {mine:.2f} s against {other:.2f} s, medians of {len(pairs)} interleaved rounds;"
        f" {samples} samples, {size / 1e6:.1f} MB"
    )
    print(
        f"  Linux {platform.release()}, {version}, {os.cpu_count()} CPUs, load"
        f" {os.getloadavg()[0]:.1f}, Python {platform.python_version()}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
