"""What this machine lacks for a VM, for ``doctor`` and for the choice of the kernel."""

from __future__ import annotations

import shutil

from cnibench.errors import InputError, MissingError
from cnibench.testbed.cluster import Problem
from cnibench.vm.accel import QEMU, accelerator
from cnibench.vm.initramfs import missing_programs
from cnibench.vm.kernel import newest
from cnibench.vm.machine import Size


def problems(installed: bool = True) -> list[Problem]:
    """Everything that is missing, each with what to install; [] when a VM can be started.

    ``installed`` is off when the kernel is one that the user names.
    """
    found = []
    if shutil.which(QEMU) is None:
        found.append(Problem("", f"VM: the program {QEMU}", "sudo apt-get install qemu-system-x86"))
    found += [
        Problem("", f"VM: the program {program}", f"sudo apt-get install {package}")
        for program, package in missing_programs()
    ]
    for check in (newest, Size.usual) if installed else (Size.usual,):
        try:
            check()
        except (MissingError, InputError) as error:
            found.append(Problem("", f"VM: {error.message}", error.remedy))
    return found


def summary() -> str:
    """One line: with which kernel and how a VM would run here, or what is missing first."""
    if found := problems():
        return f"no VM is possible: {found[0].lacks.removeprefix('VM: ')}"
    kernel = newest()
    accel = accelerator(kernel)
    how = (
        "KVM"
        if accel.name == "kvm"
        else f"emulated ({accel.reason}): absolute figures mean nothing there"
    )
    return f"a VM is possible: kernel {kernel.release}, {how}"
