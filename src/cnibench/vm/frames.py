"""What passes over the one virtio-serial port between host and guest: frames of a kind, a length
and a payload.

One ordered channel for everything, so that no output can come after the exit status.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

OUT, ERR = b"O", b"E"  # guest to host: bytes of the command's standard output and standard error
UP = b"U"  # guest to host, once: the guest is up (JSON: release, seconds since its kernel started)
BEAT = b"B"  # guest to host, every BEAT_SECONDS: it is alive
EXIT = b"X"  # guest to host, last: the command's exit status in decimal
FAILED = b"F"  # guest to host, last: why the guest cannot run the command
JOB = b"J"  # host to guest, once, after UP: what to run (JSON, see guest.py)
SIGNAL = b"S"  # host to guest: the number of a signal for the command, in decimal

BEAT_SECONDS = 2.0
LARGEST = 1 << 20  # bytes of payload
_HEADER = struct.Struct(">cI")
_KINDS = frozenset((OUT, ERR, UP, BEAT, EXIT, FAILED, JOB, SIGNAL))


def pack(kind: bytes, payload: bytes = b"") -> bytes:
    """The frame's bytes. Raises ValueError for a payload that is too large."""
    if len(payload) > LARGEST:
        raise ValueError(f"a frame takes at most {LARGEST} bytes")
    return _HEADER.pack(kind, len(payload)) + payload


class Reader:
    """Puts frames together from pieces of any size."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, piece: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The frames that are complete now, (kind, payload). Raises ValueError for bytes that are
        no frame.
        """
        self._pending += piece
        while len(self._pending) >= _HEADER.size:
            kind, length = _HEADER.unpack_from(self._pending)
            if kind not in _KINDS or length > LARGEST:
                raise ValueError(f"not a frame: {bytes(self._pending[:8])!r}")
            end = _HEADER.size + length
            if len(self._pending) < end:
                return
            payload = bytes(self._pending[_HEADER.size : end])
            del self._pending[:end]
            yield kind, payload
