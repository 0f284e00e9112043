"""How Felix, Calico's agent, writes a chain: its options' long forms and the hash comment of every
rule.

Follows projectcalico/calico v3.32.1 felix/iptables/renderer.go, felix/generictables/rules.go
(RuleHashes) and libcalico-go/lib/hash/unique_id.go. The hashes are those of a real node for the
same rules, which the tests check against upstream's own dump felix/fv/cali-iptables-dump.txt.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from cnibench.clusters.lab.rules.ruleset import Line, Table, chain, end, head

# Bits of IptablesMarkMask 0xffff0000, handed out in this order by felix/dataplane/driver.go.
# The third, 0x40000, is for dropping; no rule here sets it.
ACCEPT, PASS, SCRATCH0, SCRATCH1 = 0x10000, 0x20000, 0x80000, 0x100000
ALL_MARKS = ACCEPT | PASS | SCRATCH0 | SCRATCH1
ESTABLISHED = "-m conntrack --ctstate RELATED,ESTABLISHED"
_MAX_CHAIN_NAME = 28


@dataclass(frozen=True)
class Rule:
    """One rule: matches and action as felix/iptables/match_builder.go and actions.go spell them."""

    action: str = ""
    match: str = ""
    comments: tuple[str, ...] = ()


def limited(prefix: str, suffix: str, length: int = _MAX_CHAIN_NAME) -> str:
    """``prefix`` and ``suffix``, or a hash in place of a suffix that is too long
    (GetLengthLimitedID).
    """
    if len(prefix) + len(suffix) > length or (
        len(prefix) + len(suffix) == length and suffix.startswith("_")
    ):
        digest = (
            base64.urlsafe_b64encode(hashlib.sha256(suffix.encode()).digest()).decode().rstrip("=")
        )
        return f"{prefix}_{digest[: length - 1 - len(prefix)]}"
    return prefix + suffix


class RuleHash:
    """The hashes of a chain's rules, one after the other: each is also of those before it."""

    def __init__(self, name: str) -> None:
        self._digest = hashlib.sha224(name.encode()).digest()

    def of(self, text: str) -> str:
        """The hash of the next rule."""
        self._digest = hashlib.sha224(self._digest + text.encode()).digest()
        return base64.urlsafe_b64encode(self._digest).decode()[:16]


def render(name: str, rules: Sequence[Rule]) -> list[str]:
    """The rules of a chain, each with the comment ``cali:`` and its hash, without the leading ``-A
    CHAIN``.
    """
    hashes, out = RuleHash(name), []
    for rule in rules:
        mark = hashes.of(" ".join(["-A", name, "HASH", *_tail(rule)]))
        out.append(" ".join([f'-m comment --comment "cali:{mark}"', *_tail(rule)]))
    return out


def _tail(rule: Rule) -> list[str]:
    comments = [f'-m comment --comment "{comment}"' for comment in rule.comments]
    return [
        *comments,
        *([rule.match] if rule.match else []),
        *([rule.action] if rule.action else []),
    ]


def chain_lines(table: Table, name: str, rules: Sequence[Rule] = ()) -> list[Line]:
    """A whole chain of Felix's own."""
    return [chain(table, name), *(end(table, name, text) for text in render(name, rules))]


def insert_lines(
    table: Table, kernel_chain: str, rules: Sequence[Rule], where: Literal["head", "end"] = "head"
) -> list[Line]:
    """Felix's rules in a chain of the kernel: at its head (ChainInsertMode insert) or appended."""
    if where == "end":  # table.go hashes appended rules under a name of their own
        return [
            end(table, kernel_chain, text) for text in render(f"{kernel_chain}*appends*", rules)
        ]
    return [head(table, kernel_chain, text) for text in reversed(render(kernel_chain, rules))]


def jump(target: str, match: str = "", *comments: str) -> Rule:
    return Rule(f"--jump {target}", match, comments)


def goto(target: str, match: str = "") -> Rule:
    return Rule(f"--goto {target}", match)


def set_mark(mark: int, match: str = "", *comments: str) -> Rule:
    return Rule(f"--jump MARK --set-mark {mark:#x}/{mark:#x}", match, comments)


def clear_mark(mark: int, *comments: str) -> Rule:
    return Rule(f"--jump MARK --set-mark 0/{mark:#x}", "", comments)


def marked(mark: int) -> str:
    return f"-m mark --mark {mark:#x}/{mark:#x}"


def unmarked(mark: int) -> str:
    return f"-m mark --mark 0/{mark:#x}"
