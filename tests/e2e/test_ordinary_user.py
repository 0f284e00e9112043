"""``cnibench run`` as an ordinary user: the lab in a user namespace, and what is missing then is
said.
"""

from __future__ import annotations

import json
from pathlib import Path

from _commands import PROGRAM, as_user

from cnibench.rundir.reader import RunReader

RUN = [
    "run",
    "--method",
    "windows",
    "--kernel",
    "host",
    "--blocks",
    "1",
    "--duration",
    "1s",
    "--warmup",
    "0s",
    "--workload",
    "tcp-rr",
    "--json",
]


def test_an_ordinary_user_measures_and_is_reported_what_is_missing(tmp_path: Path) -> None:
    done = as_user(
        [*PROGRAM, *RUN, "--cni", "veth-baseline,flannel,cilium"], folder=tmp_path, limit=200
    )
    assert done.returncode == 0, done.stderr
    assert "cilium is not measured: eBPF programs at tc (not without root)" in done.stderr
    report = json.loads(done.stdout)
    assert {item["label"] for item in report["results"]} == {"veth-baseline", "flannel"}
    assert all(item["passed"] for item in report["attestations"])
    assert report["failures"] == [
        item for item in report["failures"] if item["status"] == "unsupported"
    ]
    facts = report["environment"]
    assert facts["namespaces"] == "user"
    assert facts["privileged"] is False
    assert "without root" in facts["lacks"]
    (path,) = (tmp_path / "runs").iterdir()
    measured = {sample.window for sample in RunReader(path).samples()}
    if (
        "cpp" not in measured
    ):  # it depends on the machine's kernel.perf_event_paranoid and kernel.kptr_restrict
        assert "without cycles per packet" in (path / "report.md").read_text()
        assert report["cpp"] == []
