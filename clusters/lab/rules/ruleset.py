"""What iptables-restore and ipset restore read, composed of the parts that each program of a node
contributes.

kube-proxy, a CNI's daemon and Docker each put jumps at the head or at the end of the kernel's own
chains; the order in which they start decides the order in which a packet meets them. A part is a
tuple of lines; ``save_text`` plays the parts in order.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Table = Literal["raw", "mangle", "nat", "filter"]

BUILTIN: dict[Table, tuple[str, ...]] = {
    "raw": ("PREROUTING", "OUTPUT"),
    "mangle": ("PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"),
    "nat": ("PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"),
    "filter": ("INPUT", "FORWARD", "OUTPUT"),
}
Where = Literal["chain", "end", "head"]


class Line(NamedTuple):
    """A chain to be there (``chain``), or a rule at the ``end`` or the ``head`` of one."""

    where: Where
    table: Table
    chain: str
    rule: str = ""


Part = tuple[Line, ...]


def chain(table: Table, name: str) -> Line:
    """A user-defined chain, empty so far."""
    return Line("chain", table, name)


def end(table: Table, name: str, rule: str) -> Line:
    """A rule after those that the chain has (iptables -A)."""
    return Line("end", table, name, rule)


def head(table: Table, name: str, rule: str) -> Line:
    """A rule before those that the chain has (iptables -I)."""
    return Line("head", table, name, rule)


@dataclass(frozen=True)
class Pod:
    """A Pod as the rules of its node see it."""

    name: str
    addresses: dict[int, str]
    interface: str = ""  # the node's end of its veth pair
    namespace: str = "cnibench"


def save_text(parts: Iterable[Sequence[Line]]) -> str:
    """The parts, played in order, as text for iptables-restore or ip6tables-restore; it replaces
    whole tables.

    All four tables are there, so that what was there before is gone; of the kernel's own chains
    those that have rules, as on a node: with iptables of the nf_tables kind an empty one would be a
    hook more that each packet passes. Raises ValueError for a jump to a chain that no part makes.
    """
    tables: dict[Table, dict[str, list[str]]] = {
        table: {name: [] for name in names} for table, names in BUILTIN.items()
    }
    for line in (line for part in parts for line in part):
        rules = tables[line.table].setdefault(line.chain, [])
        if line.where == "end":
            rules.append(line.rule)
        elif line.where == "head":
            rules.insert(0, line.rule)
    out: list[str] = []
    for table, chains in tables.items():
        _check_jumps(table, chains)
        out.append(f"*{table}")
        out += [f":{name} - [0:0]" for name in chains if name not in BUILTIN[table]]
        out += [f":{name} ACCEPT [0:0]" for name in BUILTIN[table] if chains[name]]
        out += [f"-A {name} {rule}" for name, rules in chains.items() for rule in rules]
        out.append("COMMIT")
    return "\n".join(out) + "\n"


# Targets that are not chains: everything that the rules of this package jump to.
_TARGETS = {
    "ACCEPT",
    "DROP",
    "REJECT",
    "RETURN",
    "MARK",
    "MASQUERADE",
    "DNAT",
    "SNAT",
    "NFLOG",
    "NOTRACK",
}


def _check_jumps(table: str, chains: dict[str, list[str]]) -> None:
    for name, rules in chains.items():
        for rule in rules:
            words = rule.split()
            for option, target in itertools.pairwise(words):
                if (
                    option in ("-j", "-g", "--jump", "--goto")
                    and target not in _TARGETS
                    and target not in chains
                ):
                    raise ValueError(
                        f"{table} {name}: '{rule}' goes to '{target}', which is not there"
                    )


@dataclass(frozen=True)
class IpSet:
    """One set for ``ipset restore``."""

    name: str
    kind: str  # hash:ip, hash:net, hash:ip,port, bitmap:port
    family: int
    members: tuple[str, ...] = ()
    options: str = ""  # 'maxelem 1048576', 'timeout 0'

    def parameters(self) -> tuple[str, ...]:
        """Type and options, as ``ipset create`` takes them."""
        family = (
            ()
            if self.kind == "bitmap:port"
            else ("family", "inet" if self.family == 4 else "inet6")
        )
        return (self.kind, *family, *self.options.split())


def ipset_text(sets: Iterable[IpSet]) -> str:
    """Text for ``ipset restore -exist``: each set made when it is not there, emptied and filled."""
    out: list[str] = []
    for item in sets:
        out.append(f"create {item.name} {' '.join(item.parameters())}")
        out.append(f"flush {item.name}")
        out += [f"add {item.name} {member}" for member in item.members]
    return "\n".join(out) + "\n"


def base32_hash(text: str, length: int = 16) -> str:
    """SHA-256 in base32, cut: how kube-proxy and kube-router make chain names from long names."""
    return base64.b32encode(hashlib.sha256(text.encode()).digest()).decode()[:length]
