"""Addresses of networks and devices in text, in all their usual spellings."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable

Pseudonym = Callable[[str, str], str]  # (kind, address in one spelling) to what stands for it

_H = "[0-9A-Fa-f]"
# Not behind a group of such a number, which an IPv6 address may have there; ``iface:`` is none.
_FIRST = rf"(?<!{_H})" + "".join(rf"(?<!\b{_H * digits}[:-])" for digits in (1, 2, 3, 4))
# Words behind which twelve digits are an address even without a letter.
_SAID = "|".join(
    rf"(?<=(?i:{word}){between})"
    for word in ("mac", "addr", "address", "ether")
    for between in ("", "[ =:_-]", "[=:][ '\"]")
)
# Pairs with colons or dashes (also the longer ones of InfiniBand), Cisco's dotted form and the same
# with colons, twelve digits after the en of a predictable device name, after a word for an address,
# or after 0x, two groups of six with a colon (the counters of iptables are like that, in brackets).
# The other forms need a letter: a number or a time would be one else. These are twelve digits, two
# groups of six with a dash, pairs with spaces or underscores, and six groups with colons whose
# leading zeros are left out. The lookahead in front of a lookbehind is for speed.
_MAC = re.compile(
    rf"(?={_H}{{2}}[:-]){_FIRST}(?:{_H}{{2}}[:-]){{5,19}}{_H}{{2}}(?!{_H})(?![:-]{_H})"
    rf"|(?<!{_H})(?:{_H}{{4}}[.-]){{2}}{_H}{{4}}(?!{_H})"
    rf"|(?={_H}{{4}}:){_FIRST}(?<!::)(?:{_H}{{4}}:){{2}}{_H}{{4}}(?![\w:])"
    rf"|(?<=[enw][nlw]x){_H}{{12}}(?!{_H})"
    rf"|(?={_H}{{12}})(?:{_SAID}){_H}{{12}}(?![0-9A-Za-z])"
    rf"|(?<![0-9A-Za-z])0[xX]{_H}{{12}}(?![0-9A-Za-z])"
    rf"|(?<![0-9A-Za-z])(?=\d*[A-Fa-f]){_H}{{12}}(?![0-9A-Za-z])"
    rf"|(?<![0-9A-Za-z:-])(?=[\d:-]*[A-Fa-f]){_H}{{6}}[:-]{_H}{{6}}(?![0-9A-Za-z:-])"
    rf"|(?<![\w.:\[-])\d{{6}}:\d{{6}}(?![\w:\]-]|\.\d)"
    rf"|(?<![0-9A-Za-z])(?=[\d _]*[A-Fa-f]){_H}{{2}}([ _])(?:{_H}{{2}}\1){{4}}{_H}{{2}}"
    rf"(?![0-9A-Za-z])"
    rf"|(?<![\w:.])(?=[\d:]*[A-Fa-f])(?:{_H}{{1,2}}:){{5}}{_H}{{1,2}}(?![\w:]|\.\w)"
)
_IPV4 = re.compile(r"(?<![\d.])(?<![vV])(?:\d{1,3}\.){3}\d{1,3}(?!\d|\.\d)")
_IN_A_NAME = re.compile(
    r"\bip-((?:\d{1,3}-){3}\d{1,3})(?!\d)", re.IGNORECASE
)  # as clouds name machines
_COLONS = re.compile(r"[\w.]*:[\w:.]*")
_NOT_HEX = re.compile(r"[^0-9A-Fa-f.:]")


def replaced(text: str, pseudonym: Pseudonym) -> str:
    """``text`` with a pseudonym for each address; loopback and the unspecified address stay."""
    text = _MAC.sub(lambda match: pseudonym("mac", _twelve(match[0].lower())), text)
    text = _IN_A_NAME.sub(lambda match: f"ip-{_four(match[1].replace('-', '.'), pseudonym)}", text)
    if ":" in text:  # else each letter of a long word would be tried as the first of an address
        text = _COLONS.sub(lambda match: _six(match[0], pseudonym), text)
    return _IPV4.sub(lambda match: _four(match[0], pseudonym), text)


def is_address(text: str) -> bool:
    """Is it an address and no name?"""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _twelve(text: str) -> str:
    """A hardware address in digits only, its leading zeros included."""
    groups = re.split(r"[:._ -]", text.removeprefix("0x"))
    return "".join(group.zfill(2) for group in groups)


def _four(text: str, pseudonym: Pseudonym) -> str:
    octets = [int(part) for part in text.split(".")]
    if max(octets) > 255:
        return text
    return _named(ipaddress.IPv4Address(bytes(octets)), text, pseudonym)


def _six(text: str, pseudonym: Pseudonym) -> str:
    """An address among words with colons around it: ``node:fd00::17``, ``fd00::17:``. What is none
    stays.
    """
    if text.count(":") < 2:
        return text
    try:
        return _named(ipaddress.IPv6Address(text), text, pseudonym)
    except ValueError:
        pass
    head, colon, rest = text.partition(":")
    if _NOT_HEX.search(head) or len(head) > 4 or (not head and not rest.startswith(":")):
        return head + colon + _six(rest, pseudonym)
    rest, colon, tail = text.rpartition(":")
    if _NOT_HEX.search(tail) or len(tail.rstrip(".")) > 4:
        return _six(rest, pseudonym) + colon + tail
    return _six(text[:-1], pseudonym) + text[-1] if text[-1] in ":." else text


def _named(
    found: ipaddress.IPv4Address | ipaddress.IPv6Address, text: str, pseudonym: Pseudonym
) -> str:
    return text if found.is_unspecified or found.is_loopback else pseudonym("address", str(found))
