"""A whole run in a virtual machine with a distribution's stock kernel, for hosts whose own kernel lacks what a profile needs.

host:  kernel.py (which image) + accel.py (KVM or emulation) + initramfs.py  -> machine.py (qemu) -> carry.py (waits)
guest: the initramfs mounts the host's root read-only with a throw-away overlay and starts guest.py as PID 1, which runs cnibench;
       frames.py is what passes between carry.py and guest.py.
"""

from __future__ import annotations

import os

_EMULATED = 6.0  # times as long as on the host's own processor: perf's start, 2.5 s there, takes 15 s here
MARK = "CNIBENCH_VM"  # set for everything that runs in the VM; its value is the accelerator


def inside() -> str:
    """The accelerator of the VM that we run in, ``kvm`` or ``tcg`` (emulation); '' when we run in none of ours."""
    return os.environ.get(MARK, "")


def patience() -> float:
    """The factor for limits of time: 1, or more where an emulated processor runs us. Durations of measured windows take none."""
    return _EMULATED if inside() == "tcg" else 1.0
