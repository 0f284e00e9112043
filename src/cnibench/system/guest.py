"""Are we in one of our virtual machines, and how much slower is everything there?"""

from __future__ import annotations

import os

_EMULATED = (
    6.0  # times as long as on the host's own processor: perf's start, 2.5 s there, takes 15 s here
)
MARK = "CNIBENCH_VM"  # set for everything that runs in the VM; its value is the accelerator


def inside() -> str:
    """The accelerator of the VM that we run in, ``kvm`` or ``tcg`` (emulation); '' when we run in
    none of ours.
    """
    return os.environ.get(MARK, "")


def patience() -> float:
    """The factor for limits of time: 1, or more where an emulated processor runs us. Durations of
    measured windows take none.
    """
    return _EMULATED if inside() == "tcg" else 1.0
