"""How long the VM takes: until the guest is up, until a program has run in it, until cnibench has said its version there.

    python benchmarks/vm_start.py [ROUNDS]

Prints one line a round, in seconds. The guest's own uptime at its first program is the time that its kernel and first stage took.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from cnibench.vm.accel import accelerator
from cnibench.vm.carry import carry
from cnibench.vm.kernel import newest

SCRIPT = """
cut -d' ' -f1 /proc/uptime > {run}/first
{python} -c 'import sys; from cnibench.cli.main import main; sys.argv = ["cnibench", "--version"]; main()' > {run}/version
cut -d' ' -f1 /proc/uptime > {run}/second
"""


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    kernel = newest()
    accel = accelerator(kernel)
    print(f"kernel {kernel.release}, {accel.name}, load {os.getloadavg()[0]:.1f}")
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            begin = time.monotonic()
            carry(["sh", "-c", SCRIPT.format(run=folder, python=sys.executable)], Path(folder), kernel, accel)
            whole = time.monotonic() - begin
            first, second = (float(Path(folder, name).read_text()) for name in ("first", "second"))
        print(f"round {number + 1}: first program {first:.1f}, cnibench {second:.1f} (guest's clock); from start to end {whole:.1f}")


if __name__ == "__main__":
    main()
