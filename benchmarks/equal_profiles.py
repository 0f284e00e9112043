"""How often slices find a difference where there is none: whole runs of one profile under several
labels (A/A), each with as few blocks as the exact test can decide with, or until every pair is
decided (--blocks auto, the rule of a run without options).

    sudo python benchmarks/equal_profiles.py [--runs 100] [--labels 3] [--duration 0.2s]
        [--blocks auto|N] [--cni flannel,calico-wp-xsub,cilium] [--workload tcp-rr]
        [--placement inter] [--keep DIR]

The profiles take turns. A false alarm is a run in which any two labels of one place are
significantly different in that metric, corrected for the pairs of the place. Prints a line for each
run, and for each metric the share of false alarms with its exact 95 % interval, how many blocks the
runs took, and the ratio of each two labels over all runs, which shows whether the order of labels
matters. A run with too few undisturbed blocks decides nothing and is counted on its own. Needs
root.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

from cnibench.analysis import analyse
from cnibench.analysis.model import Pair
from cnibench.errors import CnibenchError
from cnibench.rundir.index import find
from cnibench.rundir.reader import RunReader
from cnibench.stats.inference import ALPHA, signed_rank
from cnibench.stats.power import least_blocks

_MAIN = (
    "import sys; from cnibench.cli.main import main; sys.argv = ['cnibench', *sys.argv[1:]]; main()"
)
_DIFFERENT = ("a-better", "b-better")

Families = dict[str, list[Pair]]  # placement, workload and metric to the pairs of one run


def families(folder: Path, profile: str, asked: argparse.Namespace) -> Families:
    """Measures the profile and compares its labels. Raises CnibenchError if the run failed."""
    labels = [chr(ord("a") + number) for number in range(asked.labels)]
    argv = [sys.executable, "-c", _MAIN, "run", "--method", "slices", "--kernel", "host"]
    argv += [f"--cni={','.join(f'{label}={profile}' for label in labels)}"]
    argv += [f"--blocks={asked.blocks}"]
    argv += [f"--workload={asked.workload}", f"--placement={asked.placement}", "--no-perf"]
    argv += [f"--duration={asked.duration}", f"--out={folder}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CnibenchError(f"exit status {done.returncode}: {done.stderr[-300:].strip()}")
    found = defaultdict(list)
    for pair in analyse([RunReader(find("last", folder))]).pairs:
        found[f"{pair.workload} {pair.placement} {pair.metric}"].append(pair)
    return found


def verdict(pairs: list[Pair]) -> str:
    """``alarm``; ``undecided`` if no pair raised one and not every pair was decided; ``equal``.
    What only the model of few repeats says is neither.
    """
    if any(pair.verdict in _DIFFERENT and pair.basis != "additive model" for pair in pairs):
        return "alarm"
    return "equal" if all(pair.verdict == "no-difference-found" for pair in pairs) else "undecided"


def ratios(runs: list[list[Pair]]) -> Iterator[str]:
    """The ratio of each two labels over all runs, with its 95 % interval."""
    logs = defaultdict(list)
    for pair in (pair for pairs in runs for pair in pairs):
        if pair.ratio:
            logs[f"{pair.a} / {pair.b}"].append(math.log(pair.ratio))
    for name, values in logs.items():
        test = signed_rank(np.array([values]))
        words = f"{name} {math.exp(test.centre[0]):.4f}"
        if not math.isnan(test.low[0]):
            words += f" [{math.exp(test.low[0]):.4f}, {math.exp(test.high[0]):.4f}]"
        yield words


def summary(name: str, runs: list[list[Pair]]) -> str:
    """The share of false alarms with its exact interval, and the ratios."""
    verdicts = [verdict(pairs) for pairs in runs]
    alarms, undecided = verdicts.count("alarm"), verdicts.count("undecided")
    decided = len(runs) - undecided
    text = f"{name}: {alarms} false alarms in {decided} runs, {undecided} more undecided"
    if decided:
        interval = binomtest(alarms, decided).proportion_ci(0.95, "exact")
        text += f"; {alarms / decided:.1%}, 95 % interval {interval.low:.1%} to {interval.high:.1%}"
    blocks = Counter(max((pair.n for pair in pairs), default=0) for pairs in runs)
    text += f"; blocks {', '.join(f'{n} ({count} runs)' for n, count in sorted(blocks.items()))}"
    return "; ".join([text, *ratios(runs)])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--labels", type=int, default=3)
    parser.add_argument("--duration", default="0.2s")
    parser.add_argument("--blocks", default="", help="auto or a number")
    parser.add_argument("--cni", default="flannel,calico-wp-xsub,cilium")
    parser.add_argument("--workload", default="tcp-rr")
    parser.add_argument("--placement", default="inter")
    parser.add_argument("--keep", type=Path, help="folder for the run directories")
    asked = parser.parse_args()
    pairs = math.comb(asked.labels, 2)
    asked.blocks = asked.blocks or str(least_blocks(pairs))
    most = ALPHA if asked.blocks == "auto" else min(ALPHA, 2 * pairs / 2 ** int(asked.blocks))
    print(
        f"kernel {platform.release()}, {os.cpu_count()} CPUs; {asked.labels} labels, {asked.blocks}"
        f" blocks of {asked.duration}: by construction at most {most:.1%} of the runs of equal"
        " profiles raise a false alarm"
    )
    seen: dict[str, list[list[Pair]]] = defaultdict(list)
    failed = 0
    for number, profile in enumerate(islice(cycle(asked.cni.split(",")), asked.runs), 1):
        load, began = os.getloadavg()[0], time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            try:
                found = families(asked.keep or Path(folder), profile, asked)
                words = "; ".join(f"{name} {verdict(pairs)}" for name, pairs in found.items())
            except CnibenchError as error:
                found, words = {}, error.message
                failed += 1
        for name, compared in found.items():
            seen[name].append(compared)
        took = time.monotonic() - began
        print(
            f"{number}/{asked.runs} {profile}, {took:.0f} s, load {load:.1f}: {words}", flush=True
        )
    for name, runs in seen.items():
        print(summary(name, runs))
    print(f"{failed} of {asked.runs} runs failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
