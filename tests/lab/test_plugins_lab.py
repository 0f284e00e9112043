"""What another package adds is measured like everything else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

FOREIGN = Path(__file__).parents[1] / "foreign"


def test_a_workload_a_collector_and_a_profile_of_another_package(tmp_path: Path) -> None:
    words = [
        "run",
        "--cni",
        "foreign-veth",
        "--workload",
        "udp-echo",
        "--duration",
        "0.5s",
        "--warmup",
        "0s",
        "--blocks",
        "1",
        "--no-perf",
    ]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(FOREIGN), *sys.path))}
    argv = [
        sys.executable,
        "-c",
        "from cnibench.cli.main import main; main()",
        *words,
        "--out",
        str(tmp_path),
    ]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = tmp_path.iterdir()
    samples = [json.loads(line) for line in (run / "samples.jsonl").read_text().splitlines()]
    rates = [line["value"] for line in samples if line["metric"] == "transaction_rate"]
    assert len(rates) == 2, "intra and inter"
    assert min(rates) > 0
    assert {line["profile"] for line in samples} == {"foreign-veth"}
    assert all(
        json.loads(line)["seconds"] > 0 for line in (run / "uptime.jsonl").read_text().splitlines()
    )
