"""The system call bpf(2)."""

from __future__ import annotations

import ctypes
import os
import platform

from cnibench.errors import MissingError

_NUMBERS = {
    "x86_64": 321,
    "aarch64": 280,
    "riscv64": 280,
    "loongarch64": 280,
    "ppc64le": 361,
    "s390x": 351,
    "armv7l": 386,
}
_libc = ctypes.CDLL(None, use_errno=True)


def call(command: int, attributes: bytes) -> tuple[int, bytes]:
    """The system call: what it returns, and ``attributes`` as the kernel left them. Raises
    OSError.
    """
    number = _NUMBERS.get(platform.machine())
    if number is None:
        raise MissingError(
            f"eBPF is not used on {platform.machine()} here", "leave out the eBPF profiles"
        )
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    result = _libc.syscall(
        ctypes.c_long(number), ctypes.c_long(command), buffer, ctypes.c_long(len(attributes))
    )
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(result), buffer.raw


def raw(command: int, buffer: ctypes.Array[ctypes.c_char]) -> int:
    """The system call; its error number, 0 without one. The kernel writes to ``buffer``."""
    number = _NUMBERS[platform.machine()]
    result = _libc.syscall(
        ctypes.c_long(number), ctypes.c_long(command), buffer, ctypes.c_long(len(buffer))
    )
    return ctypes.get_errno() if result < 0 else 0
