"""Which devices are hardware, and what lies below the others: a bond's or a bridge's ports, a
VLAN's device, as sysfs tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cnibench.testbed.place import Place

FOLDER = "/sys/class/net"
_LIMIT = 30.0  # s
# $0 the folder. Names of devices hold neither blanks nor slashes (dev_valid_name in
# net/core/dev.c).
_LIST = 'cd "$0" && for path in */device */lower_*; do [ -e "$path" ] && echo "$path"; done; true'


@dataclass(frozen=True)
class Stack:
    """``hardware``: the devices with something behind them (NAME/device). ``lower``: device to
    those right below it (NAME/lower_*).
    """

    hardware: frozenset[str] = frozenset()
    lower: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def below(self, name: str) -> frozenset[str]:
        """The lowest devices that packets of ``name`` may leave through; ``name`` itself when
        nothing lies below it.
        """
        found, seen, left = set[str](), set[str](), [name]
        while left:
            one = left.pop()
            if one not in seen:
                seen.add(one)
                lower = self.lower.get(one)
                if lower:
                    left.extend(lower)
                else:
                    found.add(one)
        return frozenset(found)

    def carrying(self, name: str) -> frozenset[str]:
        """The devices whose features decide for what leaves through ``name``: the hardware at the
        bottom (a bridge has the Pods' veths as ports, too), ``name`` itself where there is none."""
        return self.below(name) & self.hardware or frozenset({name})


def here(folder: str = FOLDER) -> Stack:
    """That of this machine; empty where it cannot be read."""
    root = Path(folder)
    return parse(
        str(path.relative_to(root))
        for pattern in ("*/device", "*/lower_*")
        for path in root.glob(pattern)
    )


def there(place: Place, folder: str = FOLDER) -> Stack:
    """That of a node. Raises ClusterError, LimitError."""
    return parse(place.run(["sh", "-c", _LIST, folder], timeout=_LIMIT).stdout.split())


def parse(paths: Iterable[str]) -> Stack:
    """Out of paths as NAME/device and NAME/lower_OTHER."""
    hardware, lower = set[str](), dict[str, frozenset[str]]()
    for path in paths:
        name, _, what = path.partition("/")
        if what == "device":
            hardware.add(name)
        elif what.startswith("lower_"):
            lower[name] = lower.get(name, frozenset()) | {what.removeprefix("lower_")}
    return Stack(frozenset(hardware), lower)
