"""The virtual machine as a child process: qemu with the host's root read-only, the run directory
writable, and one port to talk over.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import cnibench
from cnibench.errors import MissingError, UsageError
from cnibench.system.files import make_beneath
from cnibench.system.process import Process, spawn
from cnibench.vm import bundle, initramfs, preload
from cnibench.vm.accel import QEMU, Accelerator
from cnibench.vm.guest import PORT
from cnibench.vm.kernel import Kernel

_AGENT = "from cnibench.vm.guest import main; main()"
CONSOLE, ERRORS = "console.log", "qemu.log"  # in RUN/vm: the kernel's log, what qemu said


# Without it the guest's kernel counts timer interrupts for a moment (timer_irq_works in
# arch/x86/kernel/apic/io_apic.c) and panics when the
# host was too busy to give it any. Under KVM the kernel leaves that check out by itself.
_TIMER = "no_timer_check"
_MEMORY = "CNIBENCH_VM_MEMORY"  # environment variable: MiB
MORE_MEMORY = f"give it more, in MiB: {_MEMORY}=6144"
_LEAST, _USUAL = 768, 3072  # MiB: the guest with one profile, with many


@dataclass(frozen=True)
class Size:
    """Virtual CPUs (one for the client, one for the server) and memory (MiB)."""

    cpus: int = 2
    memory: int = _USUAL

    @property
    def room(self) -> int:
        """Bytes that a run has beyond what the guest with one profile takes."""
        return max(1, self.memory - _LEAST) << 20

    @classmethod
    def usual(cls) -> Size:
        """3 GiB, or what CNIBENCH_VM_MEMORY says, or less where the host has less to give.

        Raises UsageError for a variable that is no number, MissingError when the host has too
        little memory.
        """
        if said := os.environ.get(_MEMORY):
            if not said.isdecimal() or int(said) < 128:
                raise UsageError(
                    f"{_MEMORY}={said}: expected a number of MiB, at least 128",
                    f"for instance {_MEMORY}={_USUAL}",
                )
            return cls(memory=int(said))
        free = next(
            int(line.split()[1]) // 1024
            for line in Path("/proc/meminfo").read_text().splitlines()
            if line.startswith("MemAvailable")
        )
        memory = min(_USUAL, free * 3 // 4)
        if memory < _LEAST:
            raise MissingError(
                f"a VM needs {_LEAST} MiB of memory, {free} MiB are available here",
                "end other programs, or use --kernel host",
            )
        return cls(memory=memory)


@contextmanager
def started(
    kernel: Kernel, accel: Accelerator, run_dir: Path, size: Size, append: str = ""
) -> Iterator[tuple[Process, socket.socket]]:
    """qemu while the block runs, and our end of its port; afterwards qemu is gone. Its logs go to
    ``run_dir``/vm.

    Must be entered from the main thread: qemu gets the signal KILL when the thread that started it
    ends. Raises MissingError when qemu or a program of the first stage is missing.
    """
    logs = run_dir / "vm"
    _earlier_logs_aside(run_dir)
    near, far = socket.socketpair()
    archive = os.memfd_create("initramfs")
    with near, far, os.fdopen(archive, "wb") as file:
        file.write(initramfs.build(kernel, preload.command(_AGENT), bundle.pack(cnibench)))
        file.flush()
        argv = _command(kernel, accel, run_dir, size, far.fileno(), archive, append)
        try:
            process = spawn(
                argv, stdout=logs / ERRORS, stderr=logs / ERRORS, pass_fds=(far.fileno(), archive)
            )
        except MissingError:
            raise MissingError(
                f"the program '{QEMU}' is not installed", "sudo apt-get install qemu-system-x86"
            ) from None
        with process:
            far.close()
            yield process, near


def _earlier_logs_aside(run_dir: Path) -> None:
    """The folder for the logs, with those of an earlier start renamed: qemu would write over them,
    or through a link.
    """
    at = make_beneath(run_dir, "vm")
    try:
        there = set(os.listdir(at))
        for name in {CONSOLE, ERRORS} & there:
            number = next(number for number in count(1) if f"{name}.{number}" not in there)
            os.rename(name, f"{name}.{number}", src_dir_fd=at, dst_dir_fd=at)
    finally:
        os.close(at)


def _command(
    kernel: Kernel,
    accel: Accelerator,
    run_dir: Path,
    size: Size,
    port: int,
    archive: int,
    append: str,
) -> list[str]:
    def share(tag: str, path: Path, extra: str) -> list[str]:
        name = tag.replace(".", "-")
        place = str(path).replace(",", ",,")  # qemu's own escape
        return [
            "-fsdev",
            f"local,id={name},path={place},security_model=none,multidevs=remap{extra}",
            "-device",
            f"virtio-9p-pci,fsdev={name},mount_tag={tag}",
        ]

    return [
        QEMU,
        "-name",
        "cnibench",
        *accel.options,
        "-machine",
        "q35",
        "-smp",
        str(size.cpus),
        "-m",
        str(size.memory),
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-no-reboot",
        *share(initramfs.ROOT_TAG, Path("/"), ",readonly=on"),
        *share(initramfs.RUN_TAG, run_dir, ""),
        "-serial",
        f"file:{str(run_dir / 'vm' / CONSOLE).replace(',', ',,')}",
        "-device",
        "virtio-serial-pci",
        "-chardev",
        f"socket,id=port,fd={port}",
        "-device",
        f"virtserialport,chardev=port,name={PORT}",
        "-kernel",
        str(kernel.image),
        "-initrd",
        f"/proc/self/fd/{archive}",
        "-append",
        " ".join(
            f"console=ttyS0 panic=-1 oops=panic {_TIMER} {accel.kernel_options} {append}".split()
        ),
    ]
