"""Which start of a machine this is, so that one that was restarted in between is known."""

from __future__ import annotations

FILES = ("/proc/sys/kernel/random/boot_id", "/proc/1/stat")  # what ``start`` is given


def start(boot_id: str, stat: str = "") -> str:
    """The kernel's boot ID, and when process 1 began: a machine that is a container keeps the boot
    ID of its host. '' where neither is known.
    """
    fields = stat.rpartition(")")[2].split()  # proc(5): the 22nd of all, in ticks
    return " ".join([*boot_id.split(), *fields[19:20]])
