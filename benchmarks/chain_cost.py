"""What the chain of hashes costs: of a report, and of the writing of one sample.

    python benchmarks/chain_cost.py [SAMPLES]

A report is made of the same lines twice in turn, of a chained run and of one as version 1 wrote it,
which nothing vouches for; the ratio of the CPU times is that of the medians. Writing: the CPU time
that the hashes of a sample take, with 1 MiB of raw output, and the whole time of storing it with
its writes to the disk, beside a window of 10 s.
"""

from __future__ import annotations

import gc
import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

_ROUNDS = 5
_RAW = 1 << 20  # bytes of raw output of a sample
_WINDOW = 10.0  # s


def old_version(chained: Path, to: Path) -> None:
    """The same run as version 1 wrote it: no hashes, no segments."""
    to.mkdir()
    for name in ("plan.json", "env.json"):
        document = json.loads((chained / name).read_text()) | {"schema": 1}
        (to / name).write_text(json.dumps(document))
    (to / "samples.jsonl").write_bytes(
        (chained / "samples.jsonl").read_bytes().replace(b'{"schema":2', b'{"schema":1')
    )
    with (to / "events.jsonl").open("w") as file:
        for line in (chained / "events.jsonl").read_text().splitlines():
            event = json.loads(line) | {"schema": 1}
            for key in ("before", "sha256", "files", "raw", "attempt", "documents"):
                event.pop(key, None)
            if event["event"] != "run-created":
                file.write(json.dumps(event, separators=(",", ":")) + "\n")


def report_cost(samples: int, scratch: Path) -> None:
    """The ratio of the CPU times of both reports."""
    from report_speed import report, write

    chained, old = scratch / "chained", scratch / "old"
    number = write(chained, samples)
    old_version(chained, old)
    times: dict[Path, list[float]] = {chained: [], old: []}
    for turn in range(_ROUNDS + 1):
        for folder in (chained, old) if turn % 2 else (old, chained):
            gc.collect()
            began = time.process_time()
            report(folder)
            if turn:  # the first one imports
                times[folder].append(time.process_time() - began)
    with_chain, without = (statistics.median(times[folder]) for folder in (chained, old))
    cost = statistics.median(
        one / other - 1 for one, other in zip(times[chained], times[old], strict=True)
    )
    print(
        f"report of {number} samples: {with_chain:.2f} s of CPU with the chain, {without:.2f} s"
        f" without: {cost:+.1%} (median of pairs)"
    )


def run_cost(scratch: Path) -> None:
    """What a sample costs to be hashed and to be stored, in seconds and of a window."""
    from report_speed import write

    from cnibench.rundir.reader import RunReader
    from cnibench.rundir.writer import RunWriter

    write(scratch / "small", 5)
    reader = RunReader(scratch / "small")
    lines = list(reader.samples())[:5]
    hashing, storing = [], []
    with RunWriter.create(scratch / "run", reader.plan) as writer:
        for block in range(40):
            cell = reader.plan.cells[0]
            (writer.raw(cell, block) / "stdout").write_bytes(bytes(_RAW))
            began = time.perf_counter()
            writer.hashes(f"{cell.id}/{block}")
            hashing.append(time.perf_counter() - began)
            began = time.perf_counter()
            writer.finish(cell, block, lines)
            storing.append(time.perf_counter() - began)
    took, whole = statistics.median(hashing), statistics.median(storing)
    print(
        f"a sample of {len(lines)} lines and {_RAW >> 20} MiB of raw output: hashing the raw output"
        f" {took * 1e3:.2f} ms, all of its storing {whole * 1e3:.2f} ms: {took / _WINDOW:.3%} and"
        f" {whole / _WINDOW:.3%} of a window of {_WINDOW:g} s"
    )


def main(arguments: list[str]) -> None:
    scratch = Path(tempfile.mkdtemp(prefix="cnibench-"))
    try:
        run_cost(scratch)
        report_cost(int(arguments[0]) if arguments else 100_000, scratch)
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main(sys.argv[1:])
