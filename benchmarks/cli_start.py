"""How fast the command line starts: ``cnibench --help`` over ``python -c 'import click'``,
interleaved (2 or less is wanted).

    python benchmarks/cli_start.py [--rounds 15]

Both run with the interpreter that runs this program, as fresh processes, in turn; one round before
the first is thrown away, so that both have their bytecode. Other commands follow, each as a ratio
to the same.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import time

_MAIN = (
    "import sys; from cnibench.cli.main import main; sys.argv = ['cnibench', *sys.argv[1:]]; main()"
)
_COMMANDS = (["--help"], ["--version"], ["run", "--help"], ["profiles"])


def seconds(argv: list[str]) -> float:
    """Wall time of one program."""
    began = time.perf_counter()
    subprocess.run([sys.executable, *argv], stdout=subprocess.DEVNULL, check=True, timeout=120)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f},"
        f" {rounds} rounds"
    )
    took: dict[str, list[float]] = {}
    for number in range(rounds + 1):
        for name, argv in [("import click", ["-c", "import click"])] + [
            (" ".join(c), ["-c", _MAIN, *c]) for c in _COMMANDS
        ]:
            value = seconds(argv)
            if number:
                took.setdefault(name, []).append(value)
    click = took.pop("import click")
    print(f"python -c 'import click': median {statistics.median(click):.3f} s")
    for name, values in took.items():
        ratios = [value / base for value, base in zip(values, click, strict=True)]
        low, _, high = statistics.quantiles(ratios, n=4)
        print(
            f"cnibench {name:10} / import click: median {statistics.median(ratios):.2f}, quartiles"
            f" {low:.2f} to {high:.2f} ({statistics.median(values):.3f} s)"
        )


if __name__ == "__main__":
    main()
