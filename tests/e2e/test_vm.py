"""A run in the VM, as typed: IP-in-IP on a stock kernel, and every way to end one with nothing
left.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cnibench.errors import ClusterError, LimitError
from cnibench.model.profile import FOLDER
from cnibench.rundir.reader import RunReader
from cnibench.vm.accel import Accelerator, accelerator
from cnibench.vm.execute import Limits, carry
from cnibench.vm.kernel import newest
from cnibench.vm.machine import Size

CNIBENCH = str(Path(sys.executable).parent / "cnibench")
OPTIONS = (
    "--cni=calico-wp-ipip",
    "--kernel=vm",
    "--placement=inter",
    "--workload=tcp-rr",
    "--warmup=0s",
    "--no-perf",
)
LONG = 1500  # s: the machine of the tests may emulate the guest and be loaded as well

pytestmark = pytest.mark.timeout(LONG + 60)


def virtual_machines(run_dir: Path) -> list[int]:
    """The qemu processes of this run: their command lines name its directory."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if words.startswith(b"qemu-system") and str(run_dir).encode() in words:
            found.append(int(entry.name))
    return found


def wait_for(condition: Callable[[], object], words: str, seconds: float = LONG) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, words
        time.sleep(0.2)


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts ``cnibench run`` in a VM, with its output in files; killed after the test."""
    running: list[subprocess.Popen[str]] = []

    def run(*options: str) -> subprocess.Popen[str]:
        argv = [CNIBENCH, "run", "--out", str(tmp_path / "runs"), *options]
        if "--resume" not in options:
            argv += OPTIONS
        with (tmp_path / "stdout").open("w") as out, (tmp_path / "stderr").open("w") as err:
            running.append(
                subprocess.Popen(
                    argv, stdout=out, stderr=err, stdin=subprocess.DEVNULL, text=True, cwd=tmp_path
                )
            )
        return running[-1]

    yield run
    for process in running:
        process.kill()
        process.wait()


def run_directory(tmp_path: Path) -> Path:
    (found,) = (tmp_path / "runs").iterdir()
    return found


def test_ipip_is_attested_and_measured_on_the_stock_kernel_with_an_interruption(
    tmp_path: Path, begin: Callable[..., subprocess.Popen[str]]
) -> None:
    """Ctrl-C goes in, and the run can be resumed."""
    known = (FOLDER / "flannel.yaml").read_text()
    lacking = tmp_path / "on-netkit.yaml"  # a device kind that is newer than Debian 12's kernel
    lacking.write_text(known.replace("needs: [vxlan]", "needs: [vxlan, netkit]"))
    # An emulated guest beside other suites takes seconds until its collectors have begun.
    process = begin("--duration", "10s", "--blocks", "3", "--cni", str(lacking))
    wait_for(
        lambda: process.poll() is not None or "[1/3]" in (tmp_path / "stderr").read_text(),
        "the guest never measured",
    )
    run = run_directory(tmp_path)
    assert virtual_machines(run)
    process.send_signal(signal.SIGINT)
    status = process.wait(LONG)
    said = (tmp_path / "stderr").read_text()
    assert status == 130, said
    assert (
        "[1/3] block 1/3 calico-wp-ipip inter tcp-rr" in said
    )  # its progress was seen from outside
    assert "on-netkit is not measured: CONFIG_NETKIT" in said
    assert "--resume" in said
    assert "run-interrupted" in (run / "events.jsonl").read_text()  # by the guest's cnibench itself
    assert not virtual_machines(run)
    facts = json.loads((run / "env.json").read_text())
    assert (facts["testbed"], facts["kernel"], facts["cpus"]) == ("vm", newest().release, 2)
    assert facts["accelerator"] in ("kvm", "tcg")
    assert facts["accelerator"] == "kvm" or "absolute figures mean nothing" in said
    assert "Linux version" in (run / "vm" / "console.log").read_text(errors="replace")
    before = (run / "samples.jsonl").read_bytes()
    assert 1 <= len(RunReader(run).done()) < 3

    status = begin("--resume", str(run)).wait(LONG)
    assert status == 0, (tmp_path / "stderr").read_text()
    assert "calico-wp-ipip" in (tmp_path / "stdout").read_text()  # the report
    assert len(RunReader(run).done()) == 3
    assert (run / "samples.jsonl").read_bytes().startswith(before)  # nothing is measured twice
    checks = {
        item["check"]: item
        for item in map(json.loads, (run / "attestations.jsonl").read_text().splitlines())
    }
    assert checks["encapsulation"]["passed"]
    assert "ipip" in checks["encapsulation"]["observed"]
    assert checks["tunnel-device"]["passed"]
    samples = [json.loads(line) for line in (run / "samples.jsonl").read_text().splitlines()]
    rates = [
        item["value"]
        for item in samples
        if item["metric"] == "transaction_rate" and not item["params"].get("node")
    ]
    assert len(rates) == 3
    assert min(rates) > 0
    assert {item["testbed"] for item in samples} == {"vm"}
    assert not virtual_machines(run)


def test_nothing_outlives_kill_9(
    tmp_path: Path, begin: Callable[..., subprocess.Popen[str]]
) -> None:
    process = begin("--duration", "900s")
    wait_for(
        lambda: (
            process.poll() is not None
            or ((tmp_path / "runs").exists() and virtual_machines(tmp_path / "runs"))
        ),
        "no VM was started",
    )
    process.kill()
    process.wait()
    wait_for(lambda: not virtual_machines(tmp_path / "runs"), "qemu outlives cnibench", 60)


def test_a_vm_that_never_comes_up_is_given_up_and_its_log_kept(tmp_path: Path) -> None:
    with pytest.raises(LimitError, match="not up within 5 s") as told:
        carry(
            ["/bin/true"],
            tmp_path,
            newest(),
            Accelerator("tcg"),
            limits=Limits(up=5),
            append="initcall_debug rdinit=/absent root=/dev/absent rootwait",
        )
    assert str(tmp_path / "vm" / "console.log") in told.value.remedy
    assert not virtual_machines(tmp_path)


def test_a_guest_that_hangs_is_given_up(tmp_path: Path) -> None:
    def stop() -> None:
        wait_for(lambda: (tmp_path / "running").exists(), "the command never ran")
        for pid in virtual_machines(tmp_path):
            os.kill(pid, signal.SIGSTOP)

    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(LimitError, match="no sign of life"):
        carry(
            ["sh", "-c", f"touch {tmp_path}/running; sleep 900"],
            tmp_path,
            newest(),
            Accelerator("tcg"),
            limits=Limits(silent=15),
        )
    (tmp_path / "running").touch()
    stopper.join()
    assert not virtual_machines(tmp_path)


def test_a_guest_out_of_memory_is_reported_and_how_to_give_it_more(tmp_path: Path) -> None:
    # 1 GiB in pieces: at once it would be refused
    hungry = f"{sys.executable} -S -c '[bytes([1]) * (1 << 24) for _ in range(64)]'"
    with pytest.raises(ClusterError, match="the VM ran out of memory") as told:
        carry(
            ["sh", "-c", hungry],
            tmp_path,
            newest(),
            accelerator(newest()),
            size=Size(memory=640),
            limits=Limits(up=LONG),
        )
    assert "CNIBENCH_VM_MEMORY" in told.value.remedy
    assert "Out of memory" in (tmp_path / "vm" / "console.log").read_text(errors="replace")
    assert not virtual_machines(tmp_path)


def test_a_full_disk_of_the_run_directory_is_reported(tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "small", str(tmp_path)], check=True)
    try:
        filling = f"dd if=/dev/zero of={tmp_path}/raw bs=64k count=1000"
        with pytest.raises(ClusterError, match="no space is left on the file system of") as told:
            carry(
                ["sh", "-c", filling],
                tmp_path,
                newest(),
                accelerator(newest()),
                limits=Limits(up=LONG),
            )
        assert f"cnibench run --resume {tmp_path}" in told.value.remedy
        assert not virtual_machines(tmp_path)
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def test_the_hosts_files_cannot_be_changed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    script = f"""
        echo changed > {tmp_path}/beside && echo kept > {run}/inside && cat {tmp_path}/beside && rm -r {tmp_path}/precious
        ip link add probe type ipip remote 192.0.2.1 &&
            modprobe -a vxlan geneve openvswitch wireguard ila ip_set xt_set macvlan tun && echo loaded
        exit 7
    """  # noqa: E501
    (tmp_path / "precious").write_text("still here")
    assert (
        carry(["sh", "-c", script], run, newest(), Accelerator("tcg"), limits=Limits(up=LONG)) == 7
    )
    out, err = capfd.readouterr()
    assert out.split() == ["changed", "loaded"], err
    assert (run / "inside").read_text() == "kept\n"
    assert (tmp_path / "precious").read_text() == "still here"
    assert not (tmp_path / "beside").exists()
