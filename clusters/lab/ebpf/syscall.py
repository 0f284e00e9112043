"""bpf(2) by itself: maps and programs as file descriptors. No bpftool and no libbpf, so that a Pod
costs microseconds and not processes.

Nothing is pinned: what the descriptors hold goes with the process that made it, whatever ends it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cnibench.errors import ClusterError, MissingError
from cnibench.system.bpf import call, raw

MAP_ARRAY, MAP_PERCPU_HASH, MAP_PERCPU_ARRAY, MAP_ARRAY_OF_MAPS = 2, 5, 6, 12
F_NO_PREALLOC, F_RDONLY_PROG = 1, 1 << 7
_PROG_TYPE_SCHED_CLS = 3
_MAP_CREATE, _MAP_LOOKUP, _MAP_UPDATE, _MAP_DELETE, _MAP_NEXT_KEY, _PROG_LOAD = range(6)
_MAP_FREEZE = 22
_LOOKUP_BATCH, _LOOKUP_AND_DELETE_BATCH, _UPDATE_BATCH, _DELETE_BATCH = 24, 25, 26, 27
_AT_ONCE = 4096  # entries of a batch


def _bpf(command: int, attributes: bytes, *kept: object) -> int:
    """The system call; ``kept`` are the buffers that ``attributes`` point to. Raises OSError."""
    return call(command, attributes)[0]


def _pointer(data: ctypes.Array[ctypes.c_char]) -> int:
    return ctypes.addressof(data)


def _refused(what: str, error: OSError) -> MissingError | ClusterError:
    if error.errno in (errno.EPERM, errno.EACCES):
        return MissingError(
            f"{what}: the kernel does not permit it ({error.strerror})",
            "run as root, outside of a user namespace",
        )
    if error.errno == errno.ENOSYS:
        return MissingError(
            f"{what}: this kernel has no bpf(2)",
            "use a kernel with CONFIG_BPF_SYSCALL, or --kernel vm",
        )
    return ClusterError(f"{what}: {error.strerror}")


@cache
def possible_cpus() -> int:
    """How many values a map per CPU has."""
    last = Path("/sys/devices/system/cpu/possible").read_text().strip().split(",")[-1]
    return int(last.split("-")[-1]) + 1


@dataclass(frozen=True)
class MapDef:
    """What a map is made of; ``inner`` for a map of maps: an LPM trie's sizes of key and value and
    number of entries.
    """

    name: str
    kind: int
    key_size: int
    value_size: int
    max_entries: int
    flags: int = 0
    inner: MapDef | None = None


class Map:
    """One map. Keys and values are bytes of its sizes; every method raises ClusterError."""

    def __init__(self, definition: MapDef) -> None:
        """Makes it. Raises MissingError where the kernel does not let us."""
        self.fd = -1
        self.definition = definition
        name = definition.name.encode()[:15]
        inner = Map(definition.inner) if definition.inner else None
        d = definition
        try:
            attributes = struct.pack(
                "=7I16s",
                d.kind,
                d.key_size,
                d.value_size,
                d.max_entries,
                d.flags,
                inner.fd if inner else 0,
                0,
                name,
            )
            self.fd = _bpf(_MAP_CREATE, attributes)
        except OSError as error:
            raise _refused(f"eBPF map {d.name}", error) from None
        finally:
            if inner:
                inner.close()
        self._key = ctypes.create_string_buffer(d.key_size)
        per_cpu = d.kind in (MAP_PERCPU_HASH, MAP_PERCPU_ARRAY)
        self._value = ctypes.create_string_buffer(
            (d.value_size + 7) // 8 * 8 * possible_cpus() if per_cpu else d.value_size
        )
        self._per_cpu = (d.value_size + 7) // 8 * 8 if per_cpu else 0

    def _call(self, command: int, key: bytes, flags: int = 0) -> None:
        if len(key) != self.definition.key_size:
            raise ClusterError(
                f"eBPF map {self.definition.name}: a key of {len(key)} bytes,"
                f" {self.definition.key_size} are expected"
            )
        self._key.raw = key
        _bpf(
            command,
            struct.pack("=IIQQQ", self.fd, 0, _pointer(self._key), _pointer(self._value), flags),
        )

    def update(self, key: bytes, value: bytes) -> None:
        """Sets an entry; for a map of maps or programs ``value`` is a descriptor (``fd_value``)."""
        if len(value) != len(self._value):
            raise ClusterError(
                f"eBPF map {self.definition.name}: a value of {len(value)} bytes,"
                f" {len(self._value)} are expected"
            )
        self._value.raw = value
        try:
            self._call(_MAP_UPDATE, key)
        except OSError as error:
            raise ClusterError(f"eBPF map {self.definition.name}: {error.strerror}") from None

    def lookup(self, key: bytes) -> bytes | None:
        """The value; None where there is none. A map per CPU gives the values of all CPUs, each
        padded to 8 bytes.
        """
        try:
            self._call(_MAP_LOOKUP, key)
        except OSError as error:
            if error.errno == errno.ENOENT:
                return None
            raise ClusterError(f"eBPF map {self.definition.name}: {error.strerror}") from None
        return self._value.raw

    def per_cpu(self, key: bytes) -> list[bytes]:
        """The value of each CPU, [] where there is none."""
        raw = self.lookup(key)
        step, size = self._per_cpu, self.definition.value_size
        return (
            [] if raw is None else [raw[start : start + size] for start in range(0, len(raw), step)]
        )

    def delete(self, key: bytes) -> None:
        """Removes an entry; one that is not there is no error."""
        self._key.raw = key
        try:
            _bpf(_MAP_DELETE, struct.pack("=IIQ", self.fd, 0, _pointer(self._key)))
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise ClusterError(f"eBPF map {self.definition.name}: {error.strerror}") from None

    def keys(self) -> Iterator[bytes]:
        """All keys, as they are now; entries that come or go meanwhile may be left out."""
        found = ctypes.create_string_buffer(self.definition.key_size)
        before: ctypes.Array[ctypes.c_char] | None = None
        while True:
            attributes = struct.pack(
                "=IIQQQ", self.fd, 0, 0 if before is None else _pointer(before), _pointer(found), 0
            )
            try:
                _bpf(_MAP_NEXT_KEY, attributes)
            except OSError:
                return
            yield found.raw
            before = before or ctypes.create_string_buffer(self.definition.key_size)
            before.raw = found.raw

    def update_batch(self, entries: Mapping[bytes, bytes]) -> None:
        """Sets many entries of a hash map, thousands with each call."""
        pairs = list(entries.items())
        for start in range(0, len(pairs), _AT_ONCE):
            part = pairs[start : start + _AT_ONCE]
            self._batch(
                _UPDATE_BATCH,
                b"".join(key for key, _ in part),
                b"".join(value for _, value in part),
                len(part),
            )

    def delete_batch(self, keys: Sequence[bytes]) -> None:
        """Removes many entries of a hash map, all of which are there."""
        for start in range(0, len(keys), _AT_ONCE):
            part = keys[start : start + _AT_ONCE]
            self._batch(_DELETE_BATCH, b"".join(part), b"", len(part))

    def _batch(self, command: int, keys: bytes, values: bytes, count: int) -> None:
        given = ctypes.create_string_buffer(keys, len(keys))
        theirs = ctypes.create_string_buffer(values, max(len(values), 1))
        request = struct.pack(
            "=QQQQIIQQ", 0, 0, _pointer(given), _pointer(theirs), count, self.fd, 0, 0
        )
        try:
            _bpf(command, request, given, theirs)
        except OSError as error:
            raise ClusterError(f"eBPF map {self.definition.name}: {error.strerror}") from None

    def items(self) -> list[tuple[bytes, bytes]]:
        """All entries of a hash map."""
        return list(self._read(_LOOKUP_BATCH))

    def clear(self) -> None:
        """Removes all entries of a hash map."""
        for _ in self._read(_LOOKUP_AND_DELETE_BATCH):
            pass

    def _read(self, command: int) -> Iterator[tuple[bytes, bytes]]:
        d, room = self.definition, _AT_ONCE
        before = ctypes.create_string_buffer(max(8, d.key_size))
        after = ctypes.create_string_buffer(max(8, d.key_size))
        first = True
        while True:
            keys = ctypes.create_string_buffer(d.key_size * room)
            values = ctypes.create_string_buffer(d.value_size * room)
            request = struct.pack(
                "=QQQQIIQQ",
                0 if first else _pointer(before),
                _pointer(after),
                _pointer(keys),
                _pointer(values),
                room,
                self.fd,
                0,
                0,
            )
            buffer = ctypes.create_string_buffer(request, len(request))
            code = raw(command, buffer)
            if code == errno.ENOSPC:  # a bucket has more than there is room for
                room *= 2
                continue
            if code not in (0, errno.ENOENT):
                raise ClusterError(f"eBPF map {d.name}: {os.strerror(code)}")
            count = struct.unpack_from("=I", buffer.raw, 32)[0]
            all_keys, all_values = keys.raw, values.raw
            for at in range(count):
                yield (
                    all_keys[at * d.key_size : (at + 1) * d.key_size],
                    all_values[at * d.value_size : (at + 1) * d.value_size],
                )
            if code == errno.ENOENT:
                return
            before.raw, first = after.raw, False

    def freeze(self) -> None:
        """No more writes from user space: the verifier then takes its content as constants."""
        try:
            _bpf(_MAP_FREEZE, struct.pack("=I", self.fd))
        except OSError as error:
            raise _refused(f"eBPF map {self.definition.name}", error) from None

    def close(self) -> None:
        """Gives it up; the kernel keeps it while a program or another map uses it. May be called
        twice.
        """
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def fd_value(fd: int) -> bytes:
    """A descriptor as the value of a map of maps or of programs."""
    return struct.pack("=I", fd)


def load_program(name: str, instructions: bytes, licence: bytes) -> int:
    """A program for tc (sched_cls), checked by the kernel; its descriptor. Raises MissingError,
    ClusterError with the verifier's words.
    """
    code = ctypes.create_string_buffer(instructions, len(instructions))
    terms = ctypes.create_string_buffer(licence)

    def attributes(level: int, log: ctypes.Array[ctypes.c_char] | None) -> bytes:
        size, address = (len(log), _pointer(log)) if log is not None else (0, 0)
        head = struct.pack(
            "=IIQQ", _PROG_TYPE_SCHED_CLS, len(instructions) // 8, _pointer(code), _pointer(terms)
        )
        return head + struct.pack(
            "=IIQII16sII", level, size, address, 0, 0, name.encode()[:15], 0, 0
        )

    try:
        return _bpf(_PROG_LOAD, attributes(0, None), code, terms)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EACCES, errno.E2BIG):
            raise _refused(f"eBPF program {name}", error) from None
        first = error
    log = ctypes.create_string_buffer(1 << 24)
    try:
        return _bpf(_PROG_LOAD, attributes(1, log), code, terms, log)
    except OSError:
        said = [
            line
            for line in log.value.decode(errors="replace").splitlines()
            if line and not line.startswith("processed ")
        ][-3:]
        if not said:
            raise _refused(f"eBPF program {name}", first) from None
        raise ClusterError(
            f"this kernel's verifier refuses the eBPF program {name}: " + " | ".join(said)
        ) from None
