"""A shell's script in a VM with the newest stock kernel."""

from __future__ import annotations

from pathlib import Path

from cnibench.vm.accel import accelerator
from cnibench.vm.execute import Limits, carry
from cnibench.vm.kernel import newest

LONG = 2400  # s: the machine of the tests may emulate the guest and be loaded as well


def in_guest(script: str, folder: Path) -> int:
    """The exit status of a shell's script in a VM that may write to ``folder``."""
    kernel = newest()
    limits = Limits(up=LONG, total=LONG)
    return carry(["sh", "-c", script], folder, kernel, accelerator(kernel), limits=limits)
