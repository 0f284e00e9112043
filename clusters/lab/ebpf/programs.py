"""The compiled eBPF objects: read from ELF, their maps made, their programs linked to them and
loaded.

The form is ours and small (bpf/helpers.h): ``struct map_def`` in the section ``maps``, constants in
``.rodata``, each program in a section
``tc/NAME``. Relocations are R_BPF_64_64 only (Documentation/bpf/llvm_reloc.rst): the programs are
compiled without calls between functions.
"""

from __future__ import annotations

import contextlib
import os
import struct
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from cnibench.clusters.lab.ebpf.syscall import (
    F_NO_PREALLOC,
    F_RDONLY_PROG,
    MAP_ARRAY,
    MAP_ARRAY_OF_MAPS,
    Map,
    MapDef,
    load_program,
)
from cnibench.errors import ClusterError, MissingError

FOLDER = Path(__file__).parents[1] / "bpf"
_LPM_TRIE = 11
_PSEUDO_MAP_FD, _PSEUDO_MAP_VALUE = 1, 2
_R_BPF_64_64 = 1
_LOAD_WORD, _SET_CONSTANT = 0x61, 0xB7  # BPF_LDX | BPF_MEM | BPF_W, BPF_ALU64 | BPF_MOV | BPF_K
_TC_CLASSID = 72  # its offset in struct __sk_buff
_EM_BPF = 247


class _Section(NamedTuple):
    name: str
    kind: int
    info: int
    data: bytes


class _Symbol(NamedTuple):
    name: str
    section: int
    value: int
    size: int


@dataclass(frozen=True)
class Object:
    """One object file: map definitions by name, programs' code by name, relocations, constants and
    where each of them lies.
    """

    path: Path
    maps: Mapping[str, MapDef]
    programs: Mapping[str, bytes]
    relocations: Mapping[
        str, tuple[tuple[int, str, int], ...]
    ]  # program -> (offset, map name or '.rodata', offset in .rodata)
    constants: bytes
    places: Mapping[str, tuple[int, int]]  # constant -> (offset, size)
    licence: bytes


def read_object(name: str) -> Object:
    """``clusters/lab/bpf/NAME.o``. Raises MissingError when it is not there or for another machine,
    ClusterError when it is damaged.
    """
    path = FOLDER / f"{name}.o"
    try:
        data = path.read_bytes()
    except OSError:
        raise MissingError(
            f"the compiled eBPF object {path.name} is not there",
            "install clang (apt-get install clang) and install cnibench again",
        ) from None
    try:
        return _parse(path, data)
    except (struct.error, IndexError, ValueError, KeyError) as error:
        raise ClusterError(
            f"{path}: not an eBPF object that can be read: {error}", "install cnibench again"
        ) from None


def _parse(path: Path, data: bytes) -> Object:
    if data[:5] != b"\x7fELF\x02" or data[5] != (1 if sys.byteorder == "little" else 2):
        raise MissingError(
            f"{path.name} is made for another kind of machine",
            "install clang and install cnibench from its sources",
        )
    if struct.unpack_from("=H", data, 18)[0] != _EM_BPF:
        raise ClusterError(f"{path}: not an eBPF object", "install cnibench again")
    sections = list(_sections(data))
    by_name = {section.name: number for number, section in enumerate(sections)}
    symbols = list(_symbols(sections, by_name))
    maps_section, constants_section = by_name.get("maps"), by_name.get(".rodata")
    maps = {
        s.name: _map_def(s.name, sections[s.section].data[s.value : s.value + s.size])
        for s in symbols
        if s.section == maps_section and s.size
    }
    at = {
        symbol.value: symbol.name
        for symbol in symbols
        if symbol.section == maps_section and symbol.size
    }
    programs = {s.name.removeprefix("tc/"): s.data for s in sections if s.name.startswith("tc/")}
    relocations: dict[str, tuple[tuple[int, str, int], ...]] = {}
    for section in sections:
        if section.kind != 9 or not sections[section.info].name.startswith("tc/"):  # SHT_REL
            continue
        code, found = sections[section.info].data, []
        for offset, info in struct.iter_unpack("=QQ", section.data):
            symbol = symbols[info >> 32]
            addend = symbol.value + struct.unpack_from("=i", code, offset + 4)[0]
            if info & 0xFFFFFFFF != _R_BPF_64_64 or symbol.section not in (
                maps_section,
                constants_section,
            ):
                raise ClusterError(
                    f"{path}: '{symbol.name}' cannot be linked",
                    "this is a bug in its source: no calls, no writable data",
                )
            found.append(
                (offset, at[addend], 0)
                if symbol.section == maps_section
                else (offset, ".rodata", addend)
            )
        relocations[sections[section.info].name.removeprefix("tc/")] = tuple(found)
    constants = b"" if constants_section is None else sections[constants_section].data
    places = {
        s.name: (s.value, s.size)
        for s in symbols
        if s.section == constants_section and s.name and s.size
    }
    return Object(
        path, maps, programs, relocations, constants, places, sections[by_name["license"]].data
    )


def _with_constant(code: bytes, number: int) -> bytes:
    """The code with ``number`` in place of what it reads from ``skb->tc_classid``, once. Raises
    ClusterError.
    """
    out, places = bytearray(code), 0
    for at in range(0, len(code), 8):
        operation, registers, offset = struct.unpack_from("=BBh", code, at)
        if (operation, offset) == (_LOAD_WORD, _TC_CLASSID):
            target = registers & (0x0F if sys.byteorder == "little" else 0xF0)
            struct.pack_into("=BBhi", out, at, _SET_CONSTANT, target, 0, number)
            places += 1
    if places != 1:
        raise ClusterError(
            f"an eBPF program reads its endpoint's number {places} times, not once",
            "this is a bug in its source",
        )
    return bytes(out)


def _sections(data: bytes) -> Iterator[_Section]:
    start = struct.unpack_from("=Q", data, 40)[0]
    size, count, names = struct.unpack_from("=HHH", data, 58)
    headers = [
        struct.unpack_from("=IIQQQQII", data, start + size * number) for number in range(count)
    ]
    base = headers[names][4]
    for name, kind, _flags, _address, offset, length, _link, info in headers:
        yield _Section(
            _text(data, base + name),
            kind,
            info,
            b"" if kind == 8 else data[offset : offset + length],
        )


def _symbols(sections: list[_Section], by_name: Mapping[str, int]) -> Iterator[_Symbol]:
    names = sections[by_name[".strtab"]].data
    for name, _info, _other, section, value, size in struct.iter_unpack(
        "=IBBHQQ", sections[by_name[".symtab"]].data
    ):
        yield _Symbol(_text(names, name), section, value, size)


def _text(data: bytes, offset: int) -> str:
    return data[offset : data.index(b"\0", offset)].decode()


def _map_def(name: str, raw: bytes) -> MapDef:
    kind, key, value, entries, flags, inner_key, inner_value, inner_entries = struct.unpack(
        "=8I", raw
    )
    inner = (
        MapDef(f"{name}_inner", _LPM_TRIE, inner_key, inner_value, inner_entries, F_NO_PREALLOC)
        if kind == MAP_ARRAY_OF_MAPS
        else None
    )
    return MapDef(name, kind, key, value, entries, flags, inner)


class Loaded:
    """The maps and programs of an object, in the kernel, until ``close``."""

    def __init__(
        self,
        source: Object,
        constants: Mapping[str, bytes],
        entries: Mapping[str, int] | None = None,
    ) -> None:
        """``constants`` name what is constant in this copy, ``entries`` maps whose size differs.
        Raises MissingError, ClusterError.
        """
        self.maps: dict[str, Map] = {}
        self.programs: dict[str, int] = {}
        self._source = source
        self._numbered: dict[tuple[str, int], int] = {}
        content = bytearray(source.constants)
        for name, value in constants.items():
            offset, size = source.places[name]
            if len(value) != size:
                raise ClusterError(f"{source.path.name}: {name} has {size} bytes, not {len(value)}")
            content[offset : offset + size] = value
        try:
            for name, d in source.maps.items():
                count = (entries or {}).get(name, d.max_entries)
                self.maps[name] = Map(
                    MapDef(name, d.kind, d.key_size, d.value_size, count, d.flags, d.inner)
                )
            if content:
                self.maps[".rodata"] = Map(
                    MapDef("rodata", MAP_ARRAY, 4, len(content), 1, F_RDONLY_PROG)
                )
                self.maps[".rodata"].update(bytes(4), bytes(content))
                self.maps[".rodata"].freeze()
            for name in source.programs:
                self.programs[name] = load_program(name, self._linked(source, name), source.licence)
        except BaseException:
            self.close()
            raise

    def numbered(self, program: str, number: int) -> int:
        """A copy of a program in which ``skb->tc_classid`` is the constant ``number``, made once.
        Raises ClusterError.
        """
        if (program, number) not in self._numbered:
            code = _with_constant(self._linked(self._source, program), number)
            self._numbered[program, number] = load_program(program, code, self._source.licence)
        return self._numbered[program, number]

    def _linked(self, source: Object, program: str) -> bytes:
        code = bytearray(source.programs[program])
        for offset, name, inside in source.relocations.get(program, ()):
            kind = _PSEUDO_MAP_VALUE if name == ".rodata" else _PSEUDO_MAP_FD
            registers = code[offset + 1]
            code[offset + 1] = (
                registers & 0x0F | kind << 4
                if sys.byteorder == "little"
                else registers & 0xF0 | kind
            )
            struct.pack_into("=i", code, offset + 4, self.maps[name].fd)
            struct.pack_into("=i", code, offset + 12, inside)
        return bytes(code)

    def close(self) -> None:
        """Gives all of it up; may be called twice."""
        for programs in (self.programs, self._numbered):
            for fd in programs.values():
                with contextlib.suppress(OSError):
                    os.close(fd)
            programs.clear()
        for item in self.maps.values():
            item.close()
