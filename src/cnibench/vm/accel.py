"""KVM or emulation: decided by starting the kernel, since a /dev/kvm that opens is no proof that it
can run one.
"""

from __future__ import annotations

import os
import re
import select
import time
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from cnibench.system.process import spawn
from cnibench.vm.kernel import Kernel

Name = Literal["kvm", "tcg"]
QEMU = "qemu-system-x86_64"
_DEVICE = Path("/dev/kvm")
_CPUINFO = Path("/proc/cpuinfo")
_PROBE_SECONDS = 10.0  # a kernel under KVM prints its first line within one


class Accelerator(NamedTuple):
    """How qemu runs the guest's code; ``reason`` says why it is not KVM."""

    name: Name
    reason: str = ""

    @property
    def options(self) -> list[str]:
        """The options of qemu."""
        if self.name == "kvm":
            return ["-accel", "kvm", "-cpu", "host"]
        return [
            "-accel",
            "tcg,thread=multi",
            "-cpu",
            "max,la57=off",
        ]  # five-level page tables only make walks longer

    @property
    def kernel_options(self) -> str:
        """The guest's kernel command line; '' for nothing.

        Without KVM qemu hands out the host's own TSC, but no flag says so and the guest takes its
        two for unsynchronised: each look at the clock would then be a read of the emulated HPET,
        which leaves the translated code and takes qemu's big lock. The guest would find out its
        frequency by the emulated PIT: on a busy machine it took 55 MHz for 2596, and its clock, and
        with it all limits, ran 47 times as fast.
        """
        cpuinfo = _CPUINFO.read_text()
        if self.name == "kvm" or not _steady(cpuinfo):
            return ""
        khz = _khz(cpuinfo)
        return f"tsc=reliable tsc_early_khz={khz}" if khz else "tsc=reliable"


def _steady(cpuinfo: str) -> bool:
    """Do the TSCs of all CPUs run on at one rate, whatever the CPUs do?"""
    flags = [
        set(line.partition(":")[2].split())
        for line in cpuinfo.splitlines()
        if line.startswith("flags")
    ]
    return bool(flags) and all({"constant_tsc", "nonstop_tsc"} <= each for each in flags)


def _khz(cpuinfo: str) -> int:
    """Of the TSC, 0 where it is unknown: "cpu MHz" is it in virtual machines only."""
    speed = re.search(r"^cpu MHz\s*:\s*(\d+\.\d+)$", cpuinfo, re.MULTILINE)
    virtual = re.search(r"^flags\s*:.*\bhypervisor\b", cpuinfo, re.MULTILINE)
    return round(float(speed[1]) * 1e3) if speed and virtual else 0


@cache
def accelerator(kernel: Kernel) -> Accelerator:
    """KVM when this kernel says its first words under it, else emulation. At most 10 s, usually
    under one.
    """
    if not _DEVICE.exists():
        return Accelerator("tcg", f"there is no {_DEVICE}")
    if not os.access(_DEVICE, os.R_OK | os.W_OK):
        return Accelerator(
            "tcg", f"{_DEVICE} may not be opened by this user (sudo adduser $USER kvm)"
        )
    return (
        Accelerator("kvm")
        if _speaks(kernel)
        else Accelerator("tcg", f"{_DEVICE} is there and runs no kernel")
    )


def _speaks(kernel: Kernel) -> bool:
    """Whether the kernel writes its banner to the serial port under KVM."""
    near, far = os.pipe()
    argv = [
        QEMU,
        *Accelerator("kvm").options,
        "-m",
        "256",
        "-nodefaults",
        "-display",
        "none",
        "-no-reboot",
        "-kernel",
        str(kernel.image),
        "-append",
        "earlyprintk=serial,ttyS0,115200 panic=-1",
        "-serial",
        f"file:/proc/self/fd/{far}",
    ]
    seen = b""
    try:
        with spawn(argv, pass_fds=(far,)) as process:
            deadline = time.monotonic() + _PROBE_SECONDS
            while process.poll() is None and time.monotonic() < deadline:
                if select.select([near], [], [], 0.1)[0]:
                    seen += os.read(near, 65536)
                if b"Linux version" in seen:
                    return True
        return False
    finally:
        os.close(near)
        os.close(far)
