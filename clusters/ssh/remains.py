"""What is new or gone on a machine that was put back, in words: pure functions of lines of its
listing (scripts/listing.sh). Nothing of it can be shown to be ours, so it stays; each difference
comes with the command that undoes it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence

# Devices that the kernel makes with a module, and nobody can delete.
_FALLBACK = frozenset(
    {"tunl0", "ip6tnl0", "sit0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "dummy0"}
)


def of_others(new: Iterable[str]) -> list[str]:
    """Without modules, which the kernel loads on demand for whoever wants them, their devices, and
    what follows from a device that is named itself.
    """
    lines = [line for line in new if not line.startswith("module ")]
    devices = {line.split()[1] for line in lines if line.startswith("device ")}
    used = {line.split()[1] for line in lines if line.startswith("address ")}
    idle = (devices & _FALLBACK) - used
    return [
        line
        for line in lines
        if not any(_follows(line, one) for one in devices)
        and not (line.startswith("device ") and line.split()[1] in idle)
    ]


def loaded(new: Iterable[str]) -> str:
    """The modules that came and stay, '' for none."""
    names = [line.split()[1] for line in new if line.startswith("module ")]
    return (
        f"; modules that were loaded on demand stay: {', '.join(names)} (modprobe -r"
        f" {' '.join(names)} removes those that nothing uses)"
        if names
        else ""
    )


def differences(gone: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """What is new, what has another value, what is gone; the devices first."""
    was = {_setting(line): line.partition(" = ")[2] for line in gone if _setting(line)}
    found = sorted(of_others(new), key=lambda line: not line.startswith("device "))
    for line in found:
        if (name := _setting(line)) in was:
            undo = shlex.quote(f"{name}={was[name]}")
            yield f"{line}, was {was[name]} (sysctl -w {undo} sets it back)"
        else:
            undo = undoing(line)
            yield f"{line.strip()} (new{f'; {undo} removes it' if undo else ''})"
    changed = {_setting(line) for line in found}
    yield from (
        f"{line} (gone)" for line in gone if not _setting(line) or _setting(line) not in changed
    )


def undoing(line: str) -> str:
    """The command that removes what a line of the listing names, '' where there is no short one."""
    section, _, rest = line.strip().partition(" ")
    words = rest.split()
    match section:
        case "device":
            return f"ip link delete {words[0]}"
        case "address":
            return f"ip address delete {words[1]} dev {words[0]}"
        case "ipset":
            return f"ipset destroy {words[0]}"
        case "cgroup":
            return f"rmdir {shlex.quote(rest)}"
        case "netfilter" if re.match(r"nft \S+ \S+ table ", rest):
            return f"nft delete table {words[1]} {words[2]}"
        case "route" if "proto kernel" not in rest:
            return f"ip {words[0]} route delete {' '.join(words[1:])}"
    return ""


def _setting(line: str) -> str:
    match = re.match(r"sysctl (\S+) = ", line)
    return match[1] if match else ""


def _follows(line: str, device: str) -> bool:
    """Does this come and go with that device?"""
    section, _, rest = line.partition(" ")
    if section == "sysctl":
        return f".{device}." in rest.partition(" = ")[0].replace("/", ".") + "."
    if section == "address":
        return rest.split()[0] == device
    return section == "route" and f" dev {device} " in rest + " "
