"""What the kernel has of kube-proxy's table of nf_tables, by netlink: ``nft list table`` asks for
each rule's own set, which the kernel looks up among all others, in a time that grows with the
square of the Services.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from cnibench.listing.dumps import NETFILTER, address, attributes, dump, word

_GETRULE, _GETELEMENTS = 10 << 8 | 7, 10 << 8 | 13  # NFNL_SUBSYS_NFTABLES, NFT_MSG_...
_TABLE, _CHAIN, _EXPRESSIONS = 1, 2, 4  # NFTA_RULE_...
_SET, _ELEMENTS = 2, 3  # NFTA_SET_ELEM_LIST_...
_NAME, _DATA, _KEY = 1, 2, 1  # NFTA_EXPR_..., NFTA_IMMEDIATE_DATA, NFTA_SET_ELEM_...
_VALUE, _VERDICT, _TO = 1, 2, 2  # NFTA_DATA_..., NFTA_VERDICT_CHAIN
_FAMILY = {4: 2, 6: 10}
_PROTOCOLS = {6: "tcp", 17: "udp"}


def rules(family: int, table: str) -> Iterator[tuple[str, str, int]]:
    """(chain, address, port) of each rule of the calling thread's namespace, in order: where it
    translates to, or '' and 0. Raises ClusterError.
    """
    for _, body in dump(NETFILTER, _GETRULE, _asked(family, (_TABLE, table))):
        given = dict(attributes(body[4:]))
        values, translates = [], False
        for _, expression in attributes(given.get(_EXPRESSIONS, b"")):
            inner = dict(attributes(expression))
            name = word(inner[_NAME])
            if name == "immediate":
                data = dict(attributes(dict(attributes(inner[_DATA]))[_DATA]))
                values.append(data.get(_VALUE, b""))
            translates |= name == "nat"
        if translates:
            to, port = values
            yield word(given[_CHAIN]), address(to), int.from_bytes(port[:2], "big")
        else:
            yield word(given[_CHAIN]), "", 0


def verdicts(family: int, table: str, name: str) -> Iterator[tuple[str, str, int, str]]:
    """(address, protocol, port, chain) of each element of a map of Services. Raises
    ClusterError.
    """
    size = 4 if family == 4 else 16
    body = _asked(family, (_TABLE, table), (_SET, name))
    for _, message in dump(NETFILTER, _GETELEMENTS, body):
        for _, element in attributes(dict(attributes(message[4:])).get(_ELEMENTS, b"")):
            given = dict(attributes(element))
            key = dict(attributes(given[_KEY]))[_VALUE]
            verdict = dict(attributes(dict(attributes(given[_DATA]))[_VERDICT]))
            protocol, port = key[size], int.from_bytes(key[size + 4 : size + 6], "big")
            yield (
                address(key[:size]),
                _PROTOCOLS.get(protocol, str(protocol)),
                port,
                word(verdict[_TO]),
            )


def _asked(family: int, *given: tuple[int, str]) -> bytes:
    body = struct.pack("=BBH", _FAMILY[family], 0, 0)
    for kind, text in given:
        payload = text.encode() + b"\0"
        body += struct.pack("=HH", len(payload) + 4, kind) + payload + bytes(-len(payload) % 4)
    return body
