"""How long the VM takes: until a first program runs in it, until cnibench has said its version
there, until the first measured sample.

    python benchmarks/vm_start.py [ROUNDS]

Prints one line a round, in seconds from the start of qemu, by the guest's clock at the end. The
time of the first program is what firmware, kernel and first stage take, the VM's own boot; the
first sample is to start at most three times as late.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

from cnibench.rundir.reader import RunReader
from cnibench.vm import preload
from cnibench.vm.accel import accelerator
from cnibench.vm.execute import carry
from cnibench.vm.kernel import newest

VERSION = preload.command("from cnibench.cli.main import main; main()", "--version")
RUN = (
    "--cni=calico-wp-ipip --kernel=vm --blocks=1 --duration=1s --warmup=0s --no-perf"
    " --placement=inter --workload=tcp-rr"
)


def empty(folder: str) -> tuple[float, float]:
    """Seconds from just before qemu starts until the first program, and until cnibench has said its
    version; as in ``sample``.
    """
    kernel = newest()
    now = "date +%s.%N"
    script = (
        f"{now} > {folder}/first; {shlex.join(VERSION)} > {folder}/version; {now} > {folder}/second"
    )
    began = time.time()
    carry(["sh", "-c", script], Path(folder), kernel, accelerator(kernel))
    first, second = (float(Path(folder, name).read_text()) - began for name in ("first", "second"))
    return first, second


def sample(folder: str) -> float:
    """Seconds from the run directory's making, just before qemu starts, until the first measured
    sample starts.
    """
    cnibench = str(Path(sys.executable).parent / "cnibench")
    subprocess.run(
        [cnibench, "run", *RUN.split(), "--out", folder], check=True, capture_output=True
    )
    (run,) = Path(folder).iterdir()
    start, *_ = sorted(
        datetime.fromisoformat(line.start).timestamp() for line in RunReader(run).samples()
    )
    return start - (run / "vm" / "kernel").stat().st_mtime


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    kernel = newest()
    print(f"kernel {kernel.release}, {accelerator(kernel).name}")
    for number in range(rounds):
        load = os.getloadavg()[0]
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
            (first, second), measured = empty(one), sample(two)
        whole = time.monotonic() - begin
        print(
            f"round {number + 1}: first program {first:.1f}, cnibench's version {second:.1f}, first"
            f" sample {measured:.1f} = {measured / first:.1f} x the first program; both VMs"
            f" {whole:.0f}, load {load:.1f}"
        )


if __name__ == "__main__":
    main()
