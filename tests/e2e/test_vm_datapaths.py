"""Datapaths that need a stock kernel's modules, several of them measured in one run in the VM, as typed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

CNIBENCH = str(Path(sys.executable).parent / "cnibench")
LONG = 1500  # s: the machine of the tests may emulate the guest and be loaded as well
ENCAPSULATIONS = {"flannel-ipip": "ipip", "flannel-wireguard": "wireguard", "cilium-geneve": "geneve"}

pytestmark = pytest.mark.timeout(LONG + 60)


def test_further_tunnels_are_attested_and_measured_on_one_stock_kernel(tmp_path: Path) -> None:
    argv = [CNIBENCH, "run", "--cni", ",".join(ENCAPSULATIONS), "--kernel", "vm", "--blocks", "1", "--placement", "inter"]
    argv += ["--workload", "tcp-rr", "--duration", "1s", "--warmup", "0s", "--no-perf", "--out", str(tmp_path / "runs")]
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=LONG, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "runs").iterdir()
    found = [json.loads(line) for line in (run / "attestations.jsonl").read_text().splitlines()]
    assert not [item for item in found if not item["passed"]]
    for name, encapsulation in ENCAPSULATIONS.items():
        checks = {item["check"]: item for item in found if item["profile"] == name}
        assert checks["encapsulation"]["observed"].endswith(f"packets {encapsulation}")
        assert checks["tunnel-device"]["passed"]
    samples = [json.loads(line) for line in (run / "samples.jsonl").read_text().splitlines()]
    rates = {item["profile"]: item["value"] for item in samples if item["metric"] == "transaction_rate"}
    assert set(rates) == set(ENCAPSULATIONS)
    assert all(rate > 0 for rate in rates.values())
    assert {item["testbed"] for item in samples} == {"vm"}
