"""``cnibench run`` as an ordinary user: the lab in a user namespace, and what is missing then is
said.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from cnibench.rundir.reader import RunReader

RUN = [
    "run",
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


def as_user(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The program as an ordinary user of a user namespace, who may read what root may: without any
    capability on the machine.

    (The interpreter of the tests may lie where no other user of this machine may read.)
    """
    main = "import sys; from cnibench.cli.main import main; sys.argv[0] = 'cnibench'; main()"
    program = f"""
import ctypes, os, sys
from cnibench.clusters.lab.namespaces.root import own_root
ctypes.CDLL(None).unshare(0x00020000)  # CLONE_NEWNS
own_root()  # the machine of the tests may be a chroot
assert ctypes.CDLL(None).unshare(0x10000000) == 0  # CLONE_NEWUSER
print(flush=True)
sys.stdin.readline()
os.execv(sys.executable, {[sys.executable, "-c", main, *arguments]!r})
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=folder,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    for name in ("uid_map", "gid_map"):
        Path(f"/proc/{process.pid}/{name}").write_text("1000 0 1")
    out, said = process.communicate("\n", timeout=200)
    return subprocess.CompletedProcess(process.args, process.returncode, out, said)


def test_an_ordinary_user_measures_and_is_told_what_is_missing(tmp_path: Path) -> None:
    done = as_user(tmp_path, *RUN, "--cni", "veth-baseline,flannel,cilium")
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
